"""`senju status`: what a run is doing now, or where it stands."""

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.markup import escape
from rich.table import Table

from senju.cli.agents import reward_text
from senju.cli.console import JsonOption, friendly_errors, out, print_json, program
from senju.cli.display import SHOWN_METRICS
from senju.cli.quantities import UNKNOWN, count_text, duration_text, figure_text, share_text, size_text
from senju.training.control import ask_if_trained
from senju.training.monitor import shards_set_aside
from senju.training.run_folder import RunFolder

Status = dict[str, Any]  # what a run answers or its folder tells; any key but run and state may be missing

RunArgument = Annotated[Path, typer.Argument(help="The run's folder.")]
AT_REST = ("finished", "stopped", "not begun")
COLOURS = {"running": "green", "finished": "green", "pausing": "yellow", "paused": "yellow"}


def status(
    run: RunArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Go on until Ctrl-C or the run's end.")] = False,
    interval: Annotated[float, typer.Option(help="With --watch: seconds between looks.", min=0.1)] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Tell what a run is doing now: progress, workers, slots, and what bounds its speed.

    Of a run that is not being trained, tell where it stands.
    """
    with friendly_errors():
        try:
            with showing(out, watch, as_json) as show:
                for found in _looks(run, interval) if watch else [inspect(run)]:
                    show(found)
        except KeyboardInterrupt:
            raise typer.Exit(0 if watch else 130) from None  # how one stops watching; the run goes on
    if found["state"] in AT_REST and not as_json:
        out.print(_hint(found), highlight=False, soft_wrap=True)


def inspect(path: Path) -> Status:
    """What a run answers to `status`, or what its folder tells where nobody answers."""
    answer = ask_if_trained(path, "status")
    if answer is None:
        return _from_folder(RunFolder(path))
    return {"run": str(path), "state": UNKNOWN, **answer}


def _from_folder(run: RunFolder) -> Status:
    outline, metrics, evaluations, saved = run.outline, run.metrics, run.evaluations, run.checkpoints.all()
    last, total = evaluations[-1]["update"] if evaluations else None, outline.total_updates(metrics)
    reached = int(saved[-1].name.removeprefix("update_")) if saved else 0
    is_finished = total is not None and reached >= total
    return {
        "run": str(run.path),
        "state": "finished" if is_finished else "stopped" if metrics else "not begun",
        "update": metrics[-1]["update"] if metrics else 0,
        "total_updates": total,
        "steps": metrics[-1]["steps"] if metrics else 0,
        "seconds": metrics[-1]["seconds"] if metrics else 0.0,
        "checkpoint": saved[-1].name if saved else None,
        "metrics": metrics[-1] if metrics else {},
        "set_aside": shards_set_aside(run.path),
        "evaluations": [record for record in evaluations if record["update"] == last],
        **({"episodes": run.episodes[-1:]} if outline.is_independent else {}),
    }


def _looks(path: Path, interval: float) -> Iterator[Status]:
    """The run's status again and again; the last is that of its end."""
    while True:
        found = inspect(path)
        yield found
        if found["state"] in AT_REST:
            return
        time.sleep(interval)


@contextmanager
def showing(console: Console, watch: bool, as_json: bool) -> Iterator[Callable[[Status], None]]:
    """How to show a status: as a document, as tables, or, while watching without a terminal, as a line."""
    if as_json:
        yield _print_document
    elif watch and console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda found: live.update(render(found), refresh=True)
    elif watch:
        yield lambda found: console.print(
            render(found) if found["state"] in AT_REST else _line(found), highlight=False
        )
    else:
        yield lambda found: console.print(render(found), highlight=False)


def _print_document(found: Status) -> None:
    print_json(found)
    sys.stdout.flush()  # somebody may be reading along


def _line(found: Status) -> str:
    return (
        f"{found['state']}, update {_progress(found)}, {count_text(found.get('steps_per_second'))} steps/s, "
        f"{duration_text(found.get('seconds_left'))} left"
    )


def render(found: Status) -> RenderableType:
    """A status as tables."""
    if found["state"] in AT_REST:
        return _summary(found, _rows_at_rest(found))
    backend = found.get("backend") or {}
    workers = backend.get("workers") or []
    summary = _summary(found, _rows_in_training(found, backend, len(workers)))
    learners = found.get("learners") or []
    tables = [_workers_table(workers)] * bool(workers) + [_learners_table(learners)] * bool(learners)
    return Group(summary, *tables) if tables else summary


def _summary(found: Status, rows: dict[str, str]) -> Table:
    colour = COLOURS.get(found["state"], "bold")
    table = Table(show_header=False, title=escape(found["run"]), title_justify="left")
    table.add_row("state", f"[{colour}]{escape(str(found['state']))}[/]")
    table.add_row("update", _progress(found))
    table.add_row("steps", count_text(found.get("steps")))
    for name, text in rows.items():
        table.add_row(name, escape(text))
    return table


def _progress(found: Status) -> str:
    return f"{count_text(found.get('update'))} of {count_text(found.get('total_updates'))}"


def _rows_in_training(found: Status, backend: dict[str, Any], num_workers: int) -> dict[str, str]:
    slots = [(state, backend.get(f"slots_{state}")) for state in ("ready", "playing", "held", "free")]
    own, shared = size_text(backend.get("memory_bytes") or None), size_text(backend.get("shared_bytes"))
    rows = {
        "speed": f"{count_text(found.get('steps_per_second'))} steps/s",
        "time left": duration_text(found.get("seconds_left")),
        "lag": _plain(found.get("lag")),
        "backend": _plain(backend.get("backend")),
        "workers": f"{num_workers} of {count_text(backend.get('wanted_workers'))}",
        "slots": ", ".join(f"{count_text(count)} {state}" for state, count in slots),
        "restarts": count_text(backend.get("restarts")),
        "memory": f"{own}, shared {shared}",
        "process": _plain(found.get("pid")),
    }
    if found.get("rewards"):
        rows["reward per game"] = ", ".join(map(reward_text, found["rewards"]))
    if backend.get("set_aside"):
        rows["shards set aside"] = ", ".join(map(str, backend["set_aside"]))
    if found.get("explanation"):
        rows["time goes to"] = str(found["explanation"])
    return rows


def _plain(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    return UNKNOWN if value is None else str(value)


def _new_table(words: tuple[str, ...], figures: tuple[str, ...]) -> Table:
    table = Table()
    for name in words:
        table.add_column(name)
    for name in figures:
        table.add_column(name, justify="right")
    return table


def _learners_table(learners: list[dict[str, Any]]) -> Table:
    table = _new_table(("learner", "state", "agents"), ("trainings", "restarts", "memory", "process"))
    for learner in learners:
        table.add_row(
            _plain(learner.get("number")),
            escape(_plain(learner.get("state"))),
            ", ".join(map(str, learner.get("agents") or ())),
            count_text(learner.get("trainings")),
            count_text(learner.get("restarts")),
            size_text(learner.get("memory_bytes") or None),  # a thread has none of its own
            _plain(learner.get("pid")),
        )
    return table


def _workers_table(workers: list[dict[str, Any]]) -> Table:
    table = _new_table(("worker", "state"), ("shard", "rollouts", "restarts", "busy", "memory", "process"))
    for worker in workers:
        table.add_row(
            _plain(worker.get("index")),
            escape(_plain(worker.get("state"))),
            _plain(worker.get("shard")),
            count_text(worker.get("rollouts")),
            count_text(worker.get("restarts")),
            share_text(worker.get("busy_share")),
            size_text(worker.get("memory_bytes") or None),  # a thread has none of its own
            _plain(worker.get("pid")),
        )
    return table


def _rows_at_rest(found: Status) -> dict[str, str]:
    metrics = found["metrics"]
    rows = {"trained for": duration_text(found["seconds"]), "newest checkpoint": _plain(found["checkpoint"])}
    if found["set_aside"]:
        rows["shards set aside"] = f"{found['set_aside']}, see events.jsonl"
    rows |= {label: figure_text(metrics[name]) for name, label in SHOWN_METRICS.items() if name in metrics}
    for record in found["evaluations"]:
        rows[f"against {record['opponent']}"] = f"{share_text(record['score'])} at update {record['update']}"
    for record in found.get("episodes", ()):
        when = f"per episode at update {record['update']}"
        for agent, (reward, random) in enumerate(zip(record["rewards"], record["random"], strict=True)):
            rows[f"agent {agent}"] = f"{reward_text(reward)} {when}, random {reward_text(random)}"
    return rows


def _hint(found: Status) -> str:
    if found["state"] == "not begun":
        again = f"[bold]{program()} train --resume {escape(found['run'])}[/]"
        return f"It is just starting, or was stopped before it began; begin with: {again}"
    text = "It is not being trained now"
    if found["state"] == "finished":
        return f"{text}."
    return f"{text}; go on with: [bold]{program()} train --resume {escape(found['run'])}[/]"
