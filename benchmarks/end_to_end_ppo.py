"""How fast does PPO go end to end in one process, beside MaskablePPO, and how near the machine's peak?

    .venv/bin/python benchmarks/end_to_end_ppo.py

Connect Four, 64 games, 128 steps, an MLP 2×256 (89,608 weights), 4 epochs, minibatches of 2048, all
cores. Candidates take turns, one fresh process per repeat. The peer's games are NumPy arrays in one
process, in its own environment (installed by the first call). The work is bound by arithmetic: its
operations are counted, and given as a share of the matrix-product peak of the same repeat.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import bench_report as report

from senju.machine import available_cores

PEERS = Path(__file__).parent / "peers"
STAGES = ("collecting", "learning", "end_to_end")

# Matrix products only: a multiply and an add per weight and sample.
FIRST, REST = 84 * 256, 256 * 256 + 256 * 8
FORWARD = 2 * (FIRST + REST)
LEARNING = 4 * (2 * FORWARD + 2 * REST)  # epochs × (forward, weights' gradient, inputs' but the first's)
OPERATIONS = {"collecting": FORWARD, "learning": LEARNING}

Answers = dict[str, list[dict[str, Any]]]  # the repeats of each candidate


class Candidate(NamedTuple):
    """A program that does the work once and prints a line of JSON."""

    name: str
    script: str
    options: tuple[str, ...] = ()
    is_peer: bool = False


CANDIDATES = (
    Candidate("senju, float32", "senju_ppo.py", ("--precision", "float32")),
    Candidate("senju, bfloat16", "senju_ppo.py", ("--precision", "bfloat16")),
    Candidate("MaskablePPO", "maskable_ppo.py", is_peer=True),
)


def run_once(candidate: Candidate, python: Path, seed: int, threads: int) -> dict[str, Any]:
    """One repeat in a process of its own."""
    settings = ("--repeats", "1", "--seed", str(seed), "--threads", str(threads))
    command = [str(python), str(PEERS / candidate.script), *settings, *candidate.options]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    answer: dict[str, Any] = json.loads(lines[-1])["repeats"][0]
    return answer


def measure_all(repeats: int, threads: int) -> Answers:
    """All candidates, then all again."""
    peers_python = report.ensure_peers()
    answers: Answers = {candidate.name: [] for candidate in CANDIDATES}
    for repeat in range(repeats):
        report.progress(f"repeat {repeat + 1} of {repeats}")
        for candidate in CANDIDATES:
            python = peers_python if candidate.is_peer else Path(sys.executable)
            answers[candidate.name].append(run_once(candidate, python, repeat + 1, threads))
    return answers


def rates(answers: Sequence[dict[str, Any]], stage: str) -> list[float]:
    """Samples a second, repeat by repeat."""
    return [answer[stage] for answer in answers]


def shares_of_peak(answers: Sequence[dict[str, Any]], stage: str) -> list[float]:
    """The time the counted operations take at the peaks of the same repeat, over the time they took."""
    parts = ("collecting", "learning") if stage == "end_to_end" else (stage,)
    return [
        answer[stage] * sum(OPERATIONS[part] / answer["peaks"][part] for part in parts) for answer in answers
    ]


def summarise(answers: Answers) -> dict[str, Any]:
    """Spreads of rates, ratios to the peer and shares of the peak."""
    peer = answers["MaskablePPO"]
    summary: dict[str, Any] = {}
    for name, ours in answers.items():
        summary[name] = {stage: report.spread(rates(ours, stage)) for stage in STAGES}
        if name == "MaskablePPO":
            continue
        summary[name]["over_peer"] = {
            stage: report.ratio_spread(rates(ours, stage), rates(peer, stage)) for stage in STAGES
        }
        summary[name]["share_of_peak"] = {
            stage: report.spread(shares_of_peak(ours, stage)) for stage in STAGES
        }
        summary[name]["peak"] = report.spread([answer["peaks"]["learning"] for answer in ours])
    return summary


def print_report(summary: dict[str, Any], answers: Answers) -> None:
    """Three tables: samples a second, ratios, shares of the peak."""
    ours = [name for name in summary if name != "MaskablePPO"]
    columns = ["", "collecting", "learning", "end to end"]
    rows = [[name, *(summary[name][stage].as_text() for stage in STAGES)] for name in summary]
    report.print_table("Samples a second: median (min..max)", columns, rows)
    print()
    rows = [[name, *(summary[name]["over_peer"][stage].as_text() for stage in STAGES)] for name in ours]
    report.print_table("senju ÷ MaskablePPO", columns, rows)
    print()
    rows = [
        [
            name,
            *(summary[name]["share_of_peak"][stage].as_text() for stage in STAGES),
            f"{summary[name]['peak'].median / 1e9:.0f} GFLOP/s",
        ]
        for name in ours
    ]
    report.print_table("Share of the matrix-product peak", [*columns, "peak"], rows)
    busiest = max(answer["other_cores"] or 0.0 for repeats in answers.values() for answer in repeats)
    print(f"\nother processes kept up to {busiest:.2f} cores busy meanwhile")


def plain(value: Any) -> Any:
    """A summary as JSON has it: spreads by the names of their figures."""
    if isinstance(value, report.Spread):
        return value._asdict()
    return {key: plain(inner) for key, inner in value.items()}


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes per candidate")
    parser.add_argument("--threads", type=int, default=available_cores(), help="all cores")
    settings = parser.parse_args()
    facts = report.run_facts(["torch", "numba", "numpy"])
    answers = measure_all(settings.repeats, settings.threads)
    summary = summarise(answers)
    print_report(summary, answers)
    results = {"settings": vars(settings), "operations_per_sample": OPERATIONS, "summary": plain(summary)}
    report.write_results("end_to_end_ppo", facts | results | {"repeats": answers})


if __name__ == "__main__":
    main()
