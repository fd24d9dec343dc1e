"""How many decisions a second can be drawn from a replay of 204,800, and how many can be added?

    python benchmarks/replay.py

Senju is compared with cpprb and TorchRL, all on one core with one thread, measured in turn so that a
change of the machine's speed affects all alike. All give the same fields: observation, next observation,
legal mask (bits) of both, action, return and factor; in the sizes of Connect Four (84 bytes a position)
and of Shogi (3,888).

uniform      all decisions alike.
prioritised  proportional, with importance weights, and the priorities of the batch changed after each draw.
add          2,048 decisions at a time. Senju's workers write into the ring themselves, so adding only links
             these decisions (3 steps). `copied first` also copies them, as the peers do; the peers
             get linked decisions.

The peers store both positions of a decision, senju each position once. All processes keep the memory they
freed, as senju's trainer does. The first run creates the peers' environment in `.venvs/peers`, which
takes minutes; TorchRL's sum tree is compiled there, because no wheel fits the installed torch.
"""

import argparse
import os
import subprocess
from contextlib import ExitStack
from typing import Any

import bench_report as report
from game_kernels import Candidate, Figures, Process, disturbance, measure_all, rates
from peers.replay_content import SIZES, TURN

BATCHES = (32, 256, 1024)
KINDS = ("uniform", "prioritised", "add")
OURS, COPIED = "senju", "senju, copied first"
PEERS = {  # module: what pip installs, without what that depends on: it would pull another torch
    "cpprb": ("cpprb==11.0.0",),
    "torchrl": (
        "torchrl==0.14.1",
        "tensordict==0.15.3",
        "pyvers==0.2.3",
        "orjson==3.13.0",
        "importlib_metadata==10.2.0",
        "zipp==4.1.2",
        "cloudpickle==3.1.2",
    ),
}
# the same for all: freed memory is kept, where every large batch would be mapped and cleared anew
KEEPING_MEMORY = {"MALLOC_MMAP_THRESHOLD_": str(32 * 2**20), "MALLOC_TRIM_THRESHOLD_": str(2**31 - 1)}

Results = dict[str, dict[str, Figures]]  # size, kind


def missing_peers() -> dict[str, str]:
    """Install the peers; what does not install or load, and why not."""
    python, missing = report.ensure_peers(), {}
    for module, packages in PEERS.items():
        if not report.peer_has(module):
            report.progress(f"peers: installing {', '.join(packages)}")
            command = [str(python), "-m", "pip", "install", "--quiet", "--quiet", "--no-deps", *packages]
            subprocess.run(command, check=False)
        if not report.peer_has(module):
            missing[module] = f"{packages[0]} does not install here"
    if "torchrl" not in missing and not report.peer_has("torchrl, torchrl._torchrl"):
        report.progress("peers: compiling TorchRL's sum tree")
        subprocess.run([str(python), str(report.BENCHMARKS / "peers" / "build_torchrl.py")], check=False)
        if not report.peer_has("torchrl, torchrl._torchrl"):
            missing["torchrl, prioritised"] = "its sum tree fits no installed torch and does not compile here"
    return missing


def candidates(size: str, kind: str, batches: tuple[int, ...], missing: dict[str, str]) -> list[Candidate]:
    """Senju first: the others are compared with it."""
    batches = (TURN,) if kind == "add" else batches
    chosen = [Candidate(OURS, "senju_replay.py", (size, kind), batches, is_peer=False)]
    if kind == "add":
        arguments = (size, "copy_and_add")
        chosen.append(Candidate(COPIED, "senju_replay.py", arguments, batches, is_peer=False))
    for module, name in (("cpprb", "cpprb"), ("torchrl", "TorchRL")):
        if module not in missing and f"{module}, {kind}" not in missing:
            chosen.append(Candidate(name, f"{module}_replay.py", (size, kind), batches))
    return chosen


def ratios(figures: Figures, ours: str) -> dict[str, dict[int, report.Spread]]:
    """Senju over each peer, batch by batch."""
    return {
        name: {
            batch: report.ratio_spread(rates(figures[ours][batch]), rates(answers))
            for batch, answers in of_batch.items()
        }
        for name, of_batch in figures.items()
        if not name.startswith(OURS)
    }


def millions(answers: list[dict[str, Any]]) -> list[float]:
    """Million decisions a second, repeat by repeat."""
    return [rate / 1e6 for rate in rates(answers)]


def ours_of(kind: str) -> str:
    """The entrant that is compared with the peers: for adding, the one that copies, as they do."""
    return COPIED if kind == "add" else OURS


def print_report(results: Results) -> None:
    """A table for each size and kind, and the ratios."""
    for size, of_kind in results.items():
        for kind, figures in of_kind.items():
            columns = [f"batch {batch}" for batch in figures[OURS]]
            rows = [
                [
                    name,
                    *(
                        report.spread([rate / 1e6 for rate in rates(of)]).as_text()
                        for of in by_batch.values()
                    ),
                ]
                for name, by_batch in figures.items()
            ]
            rows += [
                [f"{ours_of(kind)} ÷ {name}", *(ratio.as_text() for ratio in of_batch.values())]
                for name, of_batch in ratios(figures, ours_of(kind)).items()
            ]
            report.print_table(
                f"{size}, {kind}: million decisions a second: median (min..max)", ["", *columns], rows
            )
            print()
    others = max(disturbance(figures) for of_kind in results.values() for figures in of_kind.values())
    print(f"other processes kept up to {others:.2f} cores busy meanwhile")


def as_json(results: Results) -> dict[str, Any]:
    """All raw answers with their medians, and the ratios."""
    return {
        size: {
            kind: {
                "decisions_per_second": {
                    name: {batch: report.spread(rates(of))._asdict() for batch, of in of_batch.items()}
                    for name, of_batch in figures.items()
                },
                "senju_over_peer": {
                    name: {batch: ratio._asdict() for batch, ratio in of_batch.items()}
                    for name, of_batch in ratios(figures, ours_of(kind)).items()
                },
                "repeats": figures,
            }
            for kind, figures in of_kind.items()
        }
        for size, of_kind in results.items()
    }


def parse_arguments() -> argparse.Namespace:
    """The settings of the run."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=7, help="measures of each figure")
    parser.add_argument("--seconds", type=float, default=0.5, help="length of one measure")
    parser.add_argument("--core", type=int, default=None, help="the core to use; the last one by default")
    parser.add_argument("--batches", type=int, nargs="+", default=list(BATCHES), help="decisions of a draw")
    parser.add_argument("--sizes", nargs="+", choices=list(SIZES), default=list(SIZES))
    return parser.parse_args()


def main() -> None:
    """Measure, print, write."""
    settings = parse_arguments()
    missing = missing_peers()
    facts = report.run_facts(["numba", "llvmlite", "numpy"])
    core = max(os.sched_getaffinity(0)) if settings.core is None else settings.core
    os.sched_setaffinity(0, {core})  # the candidates inherit it
    os.environ.update(KEEPING_MEMORY)
    python, results, versions = report.ensure_peers(), {}, {}
    for size in settings.sizes:
        results[size] = {}
        for kind in KINDS:
            report.progress(f"{size}, {kind}")
            chosen = candidates(size, kind, tuple(settings.batches), missing)
            with ExitStack() as stack:  # not all at once: a replay of Shogi takes a gigabyte or two
                processes = [stack.enter_context(Process(one, python)) for one in chosen]
                results[size][kind] = measure_all(chosen, processes, settings.repeats, settings.seconds)
                versions |= {
                    one.name: process.versions for one, process in zip(chosen, processes, strict=True)
                }
    print()
    print_report(results)
    used = vars(settings) | {"core": core, "missing": missing}
    report.write_results("replay", facts | {"settings": used, "candidates": versions} | as_json(results))


if __name__ == "__main__":
    main()
