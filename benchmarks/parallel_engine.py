"""Does the parallel engine pay, for a cheap game and for a slow one, and what does healing cost?

    .venv/bin/python benchmarks/parallel_engine.py [--parts cheap slow healing peers]

cheap    Connect Four: 4 shards of 64 games, 64 steps, network and algorithm of its preset.
slow     The same game at 1 ms a move (`slow_game.py`): 4 shards of 8 games, 8 steps, an MLP 2×64.
healing  A turn of the slow game, undisturbed and with a worker killed (SIGKILL) as it begins to play:
         the extra seconds against those of one rollout and one worker's start.
peers    Stable-Baselines3's `DummyVecEnv` and its `SubprocVecEnv` on the cheap game, in the peers'
         environment (installed by the first call).

The compared engines take turns; ratios are of figures measured close in time. About five minutes on
two quiet cores. Results are written if all parts are measured, or to the file of --out.
"""

import argparse
import json
import logging
import subprocess
import threading
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from signal import SIGKILL
from time import monotonic, perf_counter, sleep
from typing import Any

import bench_report as report

from senju.backends.backend import Backend
from senju.machine import available_cores, inspect_machine
from senju.runs.run_config import RunConfig
from senju.trials.disturbances import processes_of, send_signal
from senju.trials.rig import Rig, backend_settings
from senju.trials.scale import Scale, scaled_config
from senju.trials.speed import Entrant, Results, Summary, entrants, measure_all, summarise

PARTS = ("cheap", "slow", "healing", "peers")
TITLES = {"cheap": "Connect Four", "slow": "Connect Four at 1 ms a move"}
ONE, TWO, TWO_THREADS = "1 worker", "2 workers", "2 worker threads"
FIGURES = (
    "collecting",
    "learning",
    "end_to_end",
    "allowed",
    "start_seconds",
    "publish_seconds",
    "memory_bytes",
    "worker_bytes",
)
PEER_ENVS = (2, 8)  # games, and processes, side by side
_TIMEOUT = 60.0  # seconds, for what must happen


def cheap_config() -> RunConfig:
    """Connect Four's preset in four shards."""
    return scaled_config("connect_four", Scale(num_shards=4, games_per_shard=64, rollout_steps=64))


def slow_config() -> RunConfig:
    """The slow game, so small that a turn takes a quarter of a second serially."""
    scale = Scale(num_shards=4, games_per_shard=8, rollout_steps=8)
    return scaled_config("slow_game:SlowConnectFour", scale, {"model": {"name": "mlp", "hidden": [64, 64]}})


CONFIGS = {"cheap": cheap_config, "slow": slow_config}


def run_backends(part: str, seconds: float, repeats: int) -> report.Json:
    """Serial, processes and threads on one game: all figures and the ratios that matter."""
    config = CONFIGS[part]()
    threads = Entrant(TWO_THREADS, backend_settings(config, "threads", 2), config.threads)
    field = [*entrants(config, "processes", [1, 2]), threads]
    busy: list[float] = []

    def on_stage(repeat: int, entrant: Entrant, stage: str) -> None:
        if stage == "start":  # none of our workers is busy now
            report.progress(f"{part}: repeat {repeat + 1} of {repeats}, {entrant.name}")
            busy.append(inspect_machine().busy_cores)

    measure_all(config, field[:1], 0.0, 1)  # so that this process has loaded and compiled all code
    results = measure_all(config, field, seconds, repeats, on_stage)
    summaries, ratios = summarise(field, results), find_ratios(field, results)
    print_backends(part, summaries, ratios)
    return {
        "config": config.model_dump(mode="json"),
        "entrants": {
            one.entrant.name: {name: getattr(one, name)._asdict() for name in FIGURES} for one in summaries
        },
        "ratios": {name: ratio._asdict() for name, (ratio, _) in ratios.items()},
        "wanted": {name: wanted for name, (_, wanted) in ratios.items() if wanted},
        "busy_cores_of_others": busy,
        "repeats": {name: [asdict(figures) for figures in of] for name, of in results.items()},
    }


Ratios = dict[str, tuple[report.Spread, str]]  # by description: the ratio, and its goal or ""


def find_ratios(field: Sequence[Entrant], results: Results) -> Ratios:
    """The ratios that answer the question, repeat by repeat."""

    def of(name: str, figure: str) -> list[float]:
        return [float(getattr(figures, figure)) for figures in results[name]]

    serial = [entrant.name for entrant in field if not entrant.num_workers]  # one thread, all threads
    fastest = [max(rates) for rates in zip(*(of(name, "end_to_end") for name in serial), strict=True)]
    collecting = {entrant.name: of(entrant.name, "collecting") for entrant in field}
    whole = {entrant.name: of(entrant.name, "end_to_end") for entrant in field}
    over = report.ratio_spread
    return {
        f"collecting: {ONE} ÷ {serial[0]}": (over(collecting[ONE], collecting[serial[0]]), "≥ 0.95"),
        f"collecting: {TWO} ÷ {ONE}": (over(collecting[TWO], collecting[ONE]), "≥ 1.8"),
        f"collecting: {TWO} ÷ {serial[0]}": (over(collecting[TWO], collecting[serial[0]]), ""),
        f"collecting: {TWO} ÷ {serial[-1]}": (over(collecting[TWO], collecting[serial[-1]]), ""),
        f"collecting: {TWO_THREADS} ÷ {serial[0]}": (
            over(collecting[TWO_THREADS], collecting[serial[0]]),
            "",
        ),
        f"end to end: {ONE} ÷ {serial[-1]}": (over(whole[ONE], whole[serial[-1]]), ""),
        f"end to end: {TWO} ÷ {serial[-1]}": (over(whole[TWO], whole[serial[-1]]), "≥ 1"),
        f"end to end: {TWO} ÷ the fastest serial": (over(whole[TWO], fastest), "≥ 1"),
        f"end to end: {TWO_THREADS} ÷ the fastest serial": (over(whole[TWO_THREADS], fastest), ""),
        f"end to end ÷ what its stages allow: {ONE}": (over(whole[ONE], of(ONE, "allowed")), "≥ 0.9"),
        f"end to end ÷ what its stages allow: {TWO}": (over(whole[TWO], of(TWO, "allowed")), "≥ 0.9"),
    }


def print_backends(part: str, summaries: Sequence[Summary], ratios: Ratios) -> None:
    """Two tables: figures and ratios."""
    rows = [
        [
            one.entrant.name,
            *(spread.as_text() for spread in (one.collecting, one.learning, one.end_to_end)),
            f"{one.start_seconds.median:.2f} s",
            f"{one.memory_bytes.median / 2**20:,.0f} MiB",
        ]
        for one in summaries
    ]
    columns = ["", "collecting", "learning", "end to end", "ready after", "memory"]
    report.print_table(f"{TITLES[part]}: steps a second, median (min..max)", columns, rows)
    print()
    rows = [[name, ratio.as_text(), wanted] for name, (ratio, wanted) in ratios.items()]
    report.print_table(f"{TITLES[part]}: ratios", ["", "median (min..max)", "wanted"], rows)
    print()


def run_healing(kills: int) -> report.Json:
    """One worker and two, undisturbed and with one killed, all taking turns."""
    logging.getLogger("senju").setLevel(logging.ERROR)  # each kill is warned of
    config, repeats = slow_config(), []
    with ExitStack() as stack:
        teams = {
            number: stack.enter_context(Rig(config, backend_settings(config, "processes", number))).backend
            for number in (1, 2)
        }
        for kill in range(kills):
            report.progress(f"healing: kill {kill + 1} of {kills}")
            start = start_seconds(teams[1])
            repeats.append({number: heal(team, start) for number, team in teams.items()})
    summary = {number: summarise_healing([repeat[number] for repeat in repeats]) for number in teams}
    print_healing(summary, kills)
    return {
        "config": config.model_dump(mode="json"),
        "summary": {
            number: {name: spread._asdict() for name, spread in of.items()} for number, of in summary.items()
        },
        "repeats": repeats,
    }


def start_seconds(team: Backend) -> float:
    """The time from asking for one more worker until it waits for work; it leaves again."""
    number = len(team.status().workers)
    began = perf_counter()
    team.team.resize(number + 1)
    wait_until(lambda: [worker.state for worker in team.status().workers[number:]] == ["waiting"])
    seconds = perf_counter() - began
    team.team.resize(number)
    wait_until(lambda: len(team.status().workers) == number)
    return seconds


def heal(team: Backend, start: float) -> dict[str, float]:
    """The seconds of an undisturbed turn, of its rollouts, and of a turn in which one worker is killed."""
    wait_until(lambda: all(worker.state == "waiting" for worker in team.status().workers))
    team.collect()  # the first rollout of a new worker takes longer
    team.report()  # drops the events until now
    undisturbed = turn_seconds(team)
    rollouts = [activity.ended - activity.began for activity in team.report().activities]
    killer = threading.Thread(target=kill_as_it_begins, args=(team,))
    killer.start()
    disturbed = turn_seconds(team)
    killer.join()
    kinds = [event.kind for event in team.report().events]
    if kinds != ["worker_lost"]:
        raise RuntimeError(
            f"expected one worker to be killed while it played, and its rollout again: {kinds}"
        )
    rollout = sum(rollouts) / len(rollouts)
    return {"start": start, "rollout": rollout, "undisturbed": undisturbed, "disturbed": disturbed}


def turn_seconds(team: Backend) -> float:
    """The time that one turn takes."""
    began = perf_counter()
    team.collect()
    return perf_counter() - began


def kill_as_it_begins(team: Backend) -> None:
    """Kill the first worker that is seen playing."""
    playing: list[int] = []

    def is_any_playing() -> bool:
        playing[:] = processes_of(team.status(), ["playing"])
        return bool(playing)

    wait_until(is_any_playing, every=0.0005)
    send_signal(playing[0], SIGKILL)


def wait_until(condition: Callable[[], bool], every: float = 0.02) -> None:
    """Poll a condition until a deadline."""
    deadline = monotonic() + _TIMEOUT
    while not condition():
        if monotonic() > deadline:
            raise TimeoutError(f"it did not happen within {_TIMEOUT:.0f} s")
        sleep(every)


def summarise_healing(repeats: Sequence[dict[str, float]]) -> dict[str, report.Spread]:
    """Spreads of the seconds, and of the extra ones over what they may be."""
    extra = [one["disturbed"] - one["undisturbed"] for one in repeats]
    allowed = [one["rollout"] + one["start"] for one in repeats]
    summary = {name: report.spread([one[name] for one in repeats]) for name in repeats[0]}
    return {
        **summary,
        "extra": report.spread(extra),
        "rollout_and_start": report.spread(allowed),
        "extra_over_rollout_and_start": report.ratio_spread(extra, allowed),
    }


def print_healing(summary: dict[int, dict[str, report.Spread]], kills: int) -> None:
    """One table, a column for each number of workers."""
    lines = {
        "a turn, undisturbed": "undisturbed",
        "a turn with a worker killed": "disturbed",
        "extra": "extra",
        "one rollout": "rollout",
        "one worker's start": "start",
        "extra ÷ (rollout + start), wanted < 1": "extra_over_rollout_and_start",
    }
    rows = [[line, *(of[name].as_text() for of in summary.values())] for line, name in lines.items()]
    columns = ["", *(f"{number} worker{'s' if number > 1 else ''}" for number in summary)]
    report.print_table(f"Healing, seconds: median (min..max) of {kills} kills", columns, rows)
    print()


def run_peers(seconds: float, repeats: int) -> report.Json:
    """The speed of Stable-Baselines3 with and without processes on the cheap game."""
    report.progress("peers: Stable-Baselines3")
    script = report.BENCHMARKS / "peers" / "subprocess_vec_env.py"
    options = ["--repeats", str(repeats), "--seconds", str(seconds), "--envs", *map(str, PEER_ENVS)]
    command = [str(report.ensure_peers()), str(script), *options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    answer: report.Json = json.loads(done.stdout.splitlines()[-1])
    ratios = {
        envs: report.ratio_spread(of["SubprocVecEnv"], of["DummyVecEnv"])
        for envs, of in answer["envs"].items()
    }
    rows = [
        [
            f"{envs} games, {envs} processes",
            report.spread(of["DummyVecEnv"]).as_text(),
            report.spread(of["SubprocVecEnv"]).as_text(),
            ratios[envs].as_text(),
        ]
        for envs, of in answer["envs"].items()
    ]
    title = "Stable-Baselines3, the cheap game at random: steps a second, median (min..max)"
    report.print_table(title, ["", "DummyVecEnv", "SubprocVecEnv", "its ratio"], rows)
    print()
    return answer | {"ratios": {envs: ratio._asdict() for envs, ratio in ratios.items()}}


def write(results: report.Json, out: Path | None, parts: Sequence[str]) -> None:
    """Write to --out, or to the published results if all parts were measured."""
    if out is not None:
        out.write_text(json.dumps(results, indent=2) + "\n")
        print(f"written: {out}")
    elif set(parts) == set(PARTS):
        report.write_results("parallel_engine", results)
    else:
        print("not written: these are not all parts; --out FILE writes them")


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="what to measure")
    parser.add_argument("--seconds", type=float, default=0.8, help="for each figure of each repeat")
    parser.add_argument("--repeats", type=int, default=5, help="measures of each engine")
    parser.add_argument("--kills", type=int, default=10, help="workers killed in each team")
    parser.add_argument("--out", type=Path, help="a file to write instead of the published results")
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    settings = parse_arguments()
    facts = report.run_facts(["torch", "numba", "numpy"]) | {"busy_cores": inspect_machine().busy_cores}
    chosen = {name: value for name, value in vars(settings).items() if name != "out"}
    results: dict[str, Any] = {"settings": chosen | {"threads": available_cores()}}
    began = perf_counter()
    for part in PARTS:
        if part not in settings.parts:
            continue
        if part in CONFIGS:
            results[part] = run_backends(part, settings.seconds, settings.repeats)
        elif part == "healing":
            results[part] = run_healing(settings.kills)
        else:
            results[part] = run_peers(settings.seconds, settings.repeats)
    results["seconds"] = perf_counter() - began
    write(facts | results, settings.out, settings.parts)


if __name__ == "__main__":
    main()
