"""`senju doctor`: what this machine offers, and what would limit a run on it."""

import os
from dataclasses import asdict
from importlib.metadata import version
from typing import Annotated, Any

import typer
from rich.table import Table

from senju.cli.console import err, out, print_json
from senju.cli.options import JsonOption
from senju.cli.quantities import GIB, UNKNOWN, size_text
from senju.cli.tables import facts_table
from senju.gpus import GpuReport, inspect_gpus
from senju.kernel_cache import usable_cache_folder
from senju.machine import Machine, inspect_machine
from senju.trials.profiling import Probe, probe
from senju.version import __version__

PACKAGES = ("numpy", "numba", "torch", "pydantic")


def doctor(
    game: Annotated[str, typer.Option(help="The game to try.")] = "connect_four", as_json: JsonOption = False
) -> None:
    """Show cores, memory, shared memory, threads and GPU; try a game and report what would limit a run."""
    machine = inspect_machine()
    with err.status(f"trying {game} for a few seconds"):
        tried = probe(game)
    gpus = inspect_gpus()
    findings = limits(machine, tried, gpus.problem)
    versions = {"senju": __version__} | {name: version(name) for name in PACKAGES}
    if as_json:
        print_json(
            {
                **asdict(machine),
                **_gpu_facts(gpus),
                "versions": versions,
                "probe": asdict(tried),
                "limits": findings,
            }
        )
        return
    out.print(_machine_table(machine, tried, versions, gpus))
    for finding in findings:
        out.print(f"[yellow]•[/] {finding}")


def _gpu_facts(gpus: GpuReport) -> dict[str, Any]:
    """What is known of the GPUs beside their names; empty without one."""
    return {f"gpu_{name}": value for name, value in gpus._asdict().items()} if gpus.memory_total else {}


def limits(machine: Machine, tried: Probe, gpu_problem: str = "") -> list[str]:
    """What would limit a run on this machine, and what to do about it."""
    findings = [f"A run of {tried.game} here is {tried.explanation}."]
    if machine.core_limit < machine.cores:
        findings.append(
            f"A quota allows {machine.core_limit:g} of {machine.cores} cores; set threads to "
            f"{max(1, int(machine.core_limit))}, or raise the quota."
        )
    if machine.busy_cores is not None and machine.busy_cores > 0.5:
        left = max(1, int(machine.cores - machine.busy_cores))
        findings.append(
            f"Other programs keep about {machine.busy_cores:.1f} cores busy; several math threads then wait "
            f"for each other and become slow: set threads to {left}."
        )
    if machine.cores == 1:
        findings.append("One core: collecting and learning take turns.")
    if machine.memory_bytes is not None and machine.memory_bytes < 2 * GIB:
        findings.append(
            f"Little memory is free ({size_text(machine.memory_bytes)}); use fewer games or a smaller model."
        )
    has_small_folder = machine.shared_memory_bytes is not None and machine.shared_memory_bytes < GIB // 4
    if has_small_folder and not hasattr(os, "memfd_create"):  # what workers share needs no folder there
        findings.append(
            f"/dev/shm has only {size_text(machine.shared_memory_bytes)} free, as containers often do; "
            "start the container with --shm-size=1g before using worker processes."
        )
    if machine.disk_free_bytes is not None and machine.disk_free_bytes < GIB:
        findings.append(f"The disk has only {size_text(machine.disk_free_bytes)} free for checkpoints.")
    if not machine.gpus:
        findings.append("No GPU is seen: the learner computes on the CPU; small models suit it.")
    if gpu_problem:
        findings.append(f"GPU utilisation cannot be measured: {gpu_problem}.")
    if usable_cache_folder() is None:
        findings.append(
            "Compiled code cannot be kept on disk; set SENJU_CACHE to a folder that can be written."
        )
    return findings


def _gpu_text(machine: Machine, gpus: GpuReport) -> str:
    """The GPUs with their memory, the driver, and whether their load can be measured."""
    named = zip(machine.gpus, gpus.memory_total, strict=False)
    facts = [f"{name} ({size_text(memory)})" for name, memory in named]
    facts += [f"driver {gpus.driver}"] if gpus.driver else []
    return ", ".join([*facts, "NVML not available" if gpus.problem else "NVML works"])


def _machine_table(machine: Machine, tried: Probe, versions: dict[str, str], gpus: GpuReport) -> Table:
    shared = machine.shared_memory_bytes
    quota = f", quota {machine.core_limit:g}" if machine.core_limit < machine.cores else ""
    rows = {
        "processor": machine.processor,
        "cores": f"{machine.cores}{quota}",
        "memory free": size_text(machine.memory_bytes),
        "shared memory free": "none" if shared is None else size_text(shared),
        "disk free": size_text(machine.disk_free_bytes),
        "torch threads": str(machine.torch_threads),
        "GPU": _gpu_text(machine, gpus) if machine.gpus else "none",
        "compiled code": usable_cache_folder() or "not kept",
        "versions": ", ".join(f"{name} {number}" for name, number in versions.items()),
        f"{tried.game}, collecting alone": f"{tried.collecting:,.0f} steps/s",
        f"{tried.game}, learning alone": f"{tried.learning:,.0f} steps/s",
        f"{tried.game}, end to end": f"{tried.end_to_end:,.0f} steps/s",
    }
    return facts_table({name: value for name, value in rows.items() if value != UNKNOWN})
