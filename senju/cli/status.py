"""`senju status`: what a run is doing now, or where it stands."""

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

from senju.cli.console import command_text, out, print_json, say
from senju.cli.display import learning_texts
from senju.cli.options import JsonOption, RunArgument
from senju.cli.quantities import (
    UNKNOWN,
    count_text,
    duration_text,
    gpu_text,
    reward_text,
    share_text,
    size_text,
)
from senju.cli.tables import facts_table, new_table
from senju.runs.control import ask_if_trained
from senju.runs.run_folder import RunFolder

Status = dict[str, Any]  # from a running run or from its folder; any key but run and state may be missing

AT_REST = ("finished", "stopped", "not begun")
COLOURS = {"running": "green", "finished": "green", "pausing": "yellow", "paused": "yellow"}


def status(
    run: RunArgument,
    watch: Annotated[bool, typer.Option("--watch", help="Repeat until Ctrl-C or the run's end.")] = False,
    interval: Annotated[float, typer.Option(help="With --watch: seconds between displays.", min=0.1)] = 1.0,
    as_json: JsonOption = False,
) -> None:
    """Show what a run is doing now: progress, workers, slots, and what bounds its speed.

    For a run that is not being trained, show how far it got.
    """
    try:
        with showing(out, watch, as_json) as show:
            show(found := inspect(run))
            while watch and found["state"] not in AT_REST:
                time.sleep(interval)
                show(found := inspect(run))
    except KeyboardInterrupt:
        if not watch:
            raise
        return  # the run continues
    if found["state"] in AT_REST and not as_json:
        say(_hint(found))


def inspect(path: Path) -> Status:
    """A run's answer to `status`, or the contents of its folder if it is not being trained."""
    answer = ask_if_trained(path, "status")
    if answer is None:
        return _from_folder(RunFolder(path))
    return {"run": str(path), "state": UNKNOWN, **answer}


def _from_folder(run: RunFolder) -> Status:
    metrics, saved = run.metrics, run.checkpoints.all()
    total = run.outline.total_updates(metrics)
    is_finished = total is not None and run.checkpoints.newest_update >= total
    return {
        "state": "finished" if is_finished else "stopped" if metrics else "not begun",
        "total_updates": total,
        "checkpoint": saved[-1].name if saved else None,
        **run.summary(),
    }


@contextmanager
def showing(console: Console, watch: bool, as_json: bool) -> Iterator[Callable[[Status], None]]:
    """A function that shows a status: as JSON, as tables or, watching without a terminal, as a line."""
    if as_json:
        yield print_json
    elif watch and console.is_terminal:
        with Live(console=console, auto_refresh=False) as live:
            yield lambda found: live.update(render(found), refresh=True)
    else:

        def show(found: Status) -> None:
            is_line = watch and found["state"] not in AT_REST
            console.print(_line(found) if is_line else render(found), highlight=False)

        yield show


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
    members = ((WORKERS, workers), (LEARNERS, found.get("learners")))
    return Group(summary, *(_members_table(columns, rows) for columns, rows in members if rows))


def _summary(found: Status, rows: dict[str, str]) -> Table:
    colour = COLOURS.get(found["state"], "bold")
    state = f"[{colour}]{escape(str(found['state']))}[/]"
    first = {"state": state, "update": _progress(found), "steps": count_text(found.get("steps"))}
    if found.get("chosen"):
        rows = {**rows, "chosen": str(found["chosen"])}
    return facts_table(first | {name: escape(text) for name, text in rows.items()}, found["run"])


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
    if "gpu_busy" in found:
        rows["GPU"] = gpu_text(found)
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


Columns = dict[str, tuple[str, Callable[[Any], str]]]  # by title: a key of the status, and its text
MEMORY = ("memory_bytes", lambda size: size_text(size or None))  # a thread has none of its own
WORKERS: Columns = {
    "worker": ("index", _plain),
    "state": ("state", _plain),
    "shard": ("shard", _plain),
    "rollouts": ("rollouts", count_text),
    "restarts": ("restarts", count_text),
    "busy": ("busy_share", share_text),
    "memory": MEMORY,
    "process": ("pid", _plain),
}
LEARNERS: Columns = {
    "learner": ("number", _plain),
    "state": ("state", _plain),
    "agents": ("agents", lambda agents: ", ".join(map(str, agents or ()))),
    "trainings": ("trainings", count_text),
    "restarts": ("restarts", count_text),
    "memory": MEMORY,
    "process": ("pid", _plain),
}


def _members_table(columns: Columns, members: list[dict[str, Any]]) -> Table:
    titles = list(columns)
    rows = ([escape(text(one.get(key))) for key, text in columns.values()] for one in members)
    return new_table(titles[:2], titles[2:], None, rows)


def _rows_at_rest(found: Status) -> dict[str, str]:
    rows = {"trained for": duration_text(found["seconds"]), "newest checkpoint": _plain(found["checkpoint"])}
    if "gpu_busy" in found:
        rows["GPU"] = gpu_text(found)
    if found["set_aside"]:
        rows["shards set aside"] = f"{found['set_aside']} in all sessions, see events.jsonl"
    rows |= learning_texts(found["metrics"])
    for record in found["evaluations"]:
        rows[f"against {record['opponent']}"] = f"{share_text(record['score'])} at update {record['update']}"
    for record in found.get("episodes", ()):
        when = f"per episode at update {record['update']}"
        for agent, (reward, random) in enumerate(zip(record["rewards"], record["random"], strict=True)):
            rows[f"agent {agent}"] = f"{reward_text(reward)} {when}, random {reward_text(random)}"
    return rows


def _hint(found: Status) -> str:
    if found["state"] == "finished":
        return "It is not being trained now."
    again = command_text("train --resume", found["run"])
    if found["state"] == "not begun":
        return f"It is just starting, or was stopped before it began; begin with: {again}"
    return f"It is not being trained now; go on with: {again}"
