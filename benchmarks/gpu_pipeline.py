"""How close to a GPU's limit does senju collect and train, and is the GPU busy?

    PYTHONPATH=. python3 benchmarks/gpu_pipeline.py [--only collecting,training,others] [--quick] [--out FILE]

collecting  Shogi with three residual towers and an MLP, Connect Four with an MLP: steps/s, beside the GPU
            evaluating alone and the cores stepping alone
training    PPO end to end, one epoch: Shogi with the 6×64 tower, Connect Four with an MLP 2×256; beside
            what the stages alone allow, and how busy the GPU is
others      DQN for Connect Four with its replay on the GPU; 32 and 128 independent agents in one world
            which act and learn on the GPU

A measure is one turn: every game advances `rollout_steps` steps. The first turns warm up. "Evaluation alone"
replays the same CUDA graph without games. Needs a CUDA device; about six minutes on 16 cores and an H200.
"""

import argparse
import threading
from collections.abc import Callable, Sequence
from time import perf_counter
from typing import Any

import bench_report as report
import measured_world as common
import torch

from senju.backends import BACKENDS
from senju.backends.building import new_models
from senju.backends.plan import Plan
from senju.collect.device_actor import DeviceActor, DeviceProgram
from senju.collect.orders import Orders
from senju.collect.shard import Shard
from senju.collect.slots import new_slot
from senju.config import Settings
from senju.games import make_game
from senju.games.rows import ACTION, choose_at_random
from senju.gpus import GpuSampler, summarise
from senju.machine import available_cores, math_threads
from senju.memory import keep_freed_memory
from senju.runs.run_config import RunConfig, resolve_config
from senju.trials.rig import Rig

Json = dict[str, Any]


def tower(blocks: int, channels: int) -> Settings:
    """A residual tower with squeeze-and-excitation."""
    settings = {"channels": channels, "blocks": blocks, "squeeze": 8, "value_width": 128}
    return {"name": "plane_net", **settings}


MODELS = {
    "6×64": tower(6, 64),
    "6×96": tower(6, 96),
    "10×128": tower(10, 128),
    "MLP 512-512": {"name": "mlp", "hidden": [512, 512]},
    "MLP 256-256": {"name": "mlp", "hidden": [256, 256]},
}
# game, network, shards, games of each, steps of a turn
COLLECTING = [
    ("shogi", "6×64", 16, 4096, 64),
    ("shogi", "6×96", 16, 4096, 32),
    ("shogi", "10×128", 16, 4096, 16),
    ("shogi", "MLP 512-512", 16, 8192, 32),
    ("connect_four", "MLP 256-256", 16, 8192, 64),
]
TRAINING = [
    ("shogi", "6×64", 16, 4096, 32, 32768),
    ("connect_four", "MLP 256-256", 16, 8192, 32, 65536),
]


def ppo_of(minibatch_size: int) -> Settings:
    """PPO with one epoch."""
    return {"name": "ppo", "epochs": 1, "minibatch_size": minibatch_size, "precision": "bfloat16"}


def config_of(
    game: str, model: str, shards: int, rows: int, steps: int, algorithm: Settings | None = None
) -> RunConfig:
    """A run whose device evaluates and learns."""
    settings: Settings = {
        "device": "cuda",
        "collect": {
            "num_games": shards * rows,
            "games_per_shard": rows,
            "rollout_steps": steps,
            "evaluate_on": "device",
            "precision": "bfloat16",
        },
        "model": MODELS.get(model, {"name": model}),
        "algorithm": algorithm or ppo_of(rows),
        "backend": {"name": "threads", "num_workers": min(shards, 2 * available_cores())},
        "total_steps": 2**50,
    }
    return resolve_config(game, settings)


def evaluation_alone(plan: Plan, repeats: int) -> tuple[list[float], float]:
    """Positions/s of the step's graph without games and uploads; and the seconds until it was ready."""
    game, began = make_game(**plan.game), perf_counter()
    (model,), (policy,), rows = new_models(plan, game).policies, plan.policies, plan.games_per_shard
    assert plan.evaluation is not None
    actor = DeviceActor(DeviceProgram(plan.evaluation), game, [model], policy.acting, [ACTION], rows)
    ready, count = perf_counter() - began, max(10, int(0.5 / actor.time_steps(10)))
    return [rows / actor.time_steps(count) for _ in range(repeats)], ready


def stepping_alone(plan: Plan, num_threads: int, repeats: int) -> list[float]:
    """Steps/s of threads that observe, choose at random, step and restart, without a network."""
    game, rows = make_game(**plan.game), plan.games_per_shard
    shards = [Shard(game, index, rows, 0).rows for index in range(num_threads)]
    slots = [new_slot(game, 4, rows) for _ in range(num_threads)]
    barrier, steps = threading.Barrier(num_threads + 1), 16

    def play(index: int) -> None:
        own, slot = shards[index], slots[index]
        for _ in range(repeats + 1):
            barrier.wait()
            for time in range(steps):
                seen, outcomes = slot.observations_at(time % 4), slot.outcomes_at(time % 4)
                own.observe(seen)
                choose_at_random(seen.legal, own.clock, own.seed, ACTION, slot.actions[time % 4])
                own.step(slot.actions[time % 4], outcomes)
                own.advance(outcomes)
            barrier.wait()

    threads = [threading.Thread(target=play, args=(index,)) for index in range(num_threads)]
    for thread in threads:
        thread.start()
    found = []
    for repeat in range(repeats + 1):
        barrier.wait()
        began = perf_counter()
        barrier.wait()
        if repeat:
            found.append(num_threads * rows * steps / (perf_counter() - began))
    for thread in threads:
        thread.join()
    return found


def busy_while(action: Callable[[], None]) -> float | None:
    """The mean utilisation of the GPU by NVML while something is done."""
    with GpuSampler(["cuda"]) as sampler:
        sampler.take()
        action()
        return summarise(sampler.take()).get("gpu_busy")


def collecting(case: tuple[str, str, int, int, int], repeats: int) -> Json:
    """Steps/s of collecting, beside the GPU and the cores alone."""
    game, model, shards, rows, steps = case
    config = config_of(game, model, shards, rows, steps)
    plan = config.plan
    alone, ready = evaluation_alone(plan, repeats)
    torch.cuda.empty_cache()
    cores = stepping_alone(plan, min(available_cores(), shards), repeats)
    backend = BACKENDS.get("threads")(BACKENDS.configure(config.backend))
    began = perf_counter()
    backend.start(plan)
    started = perf_counter() - began
    rates: list[float] = []
    try:
        weights = new_models(plan).read_weights()
        backend.publish(weights, 1, Orders(1, (0.0,)))

        def turns(number: int) -> None:
            for _ in range(number):
                began = perf_counter()
                backend.collect()
                rates.append(shards * rows * steps / (perf_counter() - began))

        turns(2)  # to warm up
        rates.clear()
        busy = busy_while(lambda: turns(repeats))
    finally:
        backend.close()
    torch.cuda.empty_cache()
    return {
        "game": game,
        "model": model,
        "shards": shards,
        "games_per_shard": rows,
        "rollout_steps": steps,
        "threads": config.backend["num_workers"],
        "steps_per_second": rates,
        "evaluation_alone": alone,
        "stepping_alone": cores,
        "share_of_evaluation": report.spread(rates).median / report.spread(alone).median,
        "gpu_busy": busy,
        "seconds_until_first_evaluation": ready,
        "seconds_until_started": started,
    }


def training(config: RunConfig, repeats: int, warm_ups: int = 2) -> Json:
    """Steps/s of whole updates, and the seconds of their stages."""
    totals: list[float] = []
    stages: dict[str, list[float]] = {"collect": [], "learn": [], "publish": []}
    with math_threads(config.threads), Rig(config, config.backend) as rig:

        def updates(number: int) -> None:
            for _ in range(number):
                times = [perf_counter()]
                rollouts = rig.collect()
                times.append(perf_counter())
                rig.metrics = rig.learn(rollouts)
                times.append(perf_counter())
                rig.publish()
                times.append(perf_counter())
                totals.append(rig.count_steps(rollouts) / (times[-1] - times[0]))
                for name, begun, ended in zip(stages, times, times[1:], strict=False):
                    stages[name].append(ended - begun)

        updates(warm_ups)
        totals.clear()
        for values in stages.values():
            values.clear()
        rig.learner.take_timings()
        busy = busy_while(lambda: updates(repeats))
        timings = rig.learner.take_timings()
        metrics = rig.metrics
    torch.cuda.empty_cache()
    return {
        "steps_per_second": totals,
        "seconds": stages,
        "learner_seconds": timings,
        "gpu_busy": busy,
        "ratio_error": metrics.get("largest_ratio_error"),
        "decisions": config.decisions_per_update,
    }


def ppo(case: tuple[str, str, int, int, int, int], repeats: int) -> Json:
    """PPO end to end, with what evaluation and learning alone allow together."""
    game, model, shards, rows, steps, minibatch = case
    config = config_of(game, model, shards, rows, steps, ppo_of(minibatch))
    alone, _ = evaluation_alone(config.plan, repeats)
    torch.cuda.empty_cache()
    found = training(config, repeats)
    learning = found["decisions"] / report.spread(found["seconds"]["learn"]).median
    allowed = 1.0 / (1.0 / report.spread(alone).median + 1.0 / learning)
    share = report.spread(found["steps_per_second"]).median / allowed
    names = {"game": game, "model": model, "minibatch_size": minibatch}
    ceilings = {"evaluation_alone": alone, "learning_alone": learning, "stages_allow": allowed}
    return {**names, **found, **ceilings, "share_of_stages": share}


def others(repeats: int) -> Json:
    """DQN with its replay on the GPU, and many independent agents."""
    replay = {"name": "dqn", "batch_size": 4096, "replay_size": 1_000_000, "replay_ratio": 1.0}
    dqn = config_of("connect_four", "MLP 256-256", 16, 1024, 16, replay)
    found: Json = {"dqn": training(dqn, repeats, warm_ups=3)}
    report.progress(f"DQN: {report.spread(found['dqn']['steps_per_second']).as_text()} steps/s")
    for num_agents in (32, 128):
        config = resolve_config(
            "treasure_hunt",
            {
                "device": "cuda",
                "game": {"num_agents": num_agents, "width": 24, "height": 24},
                "collect": {
                    "num_games": 64,
                    "games_per_shard": 16,
                    "rollout_steps": 50,
                    "seating": "independent",
                    "evaluate_on": "device",
                    "precision": "bfloat16",
                    "mode": "sync",
                },
                "learners": "stacked",
                "backend": {"name": "threads", "num_workers": 4},
                "total_steps": 2**50,
            },
        )
        name = f"{num_agents} agents"
        found[name] = training(config, repeats, warm_ups=2)
        report.progress(f"{name}: {report.spread(found[name]['steps_per_second']).as_text()} steps/s")
    return found


def show(found: Json) -> None:
    """Tables of what was measured."""
    million = 1e6

    def text(values: Sequence[float]) -> str:
        return report.spread([value / million for value in values]).as_text()

    if "collecting" in found:
        rows = [
            [
                f"{each['game']}, {each['model']}",
                text(each["steps_per_second"]),
                text(each["evaluation_alone"]),
                text(each["stepping_alone"]),
                f"{each['share_of_evaluation']:.2f}",
                "" if each["gpu_busy"] is None else f"{each['gpu_busy']:.0%}",
            ]
            for each in found["collecting"]
        ]
        columns = ["collecting, M steps/s", "senju", "GPU alone", "cores alone", "÷ GPU", "GPU busy"]
        report.print_table("collecting: median (min..max)", columns, rows)
    pairs = [(f"{each['game']}, {each['model']}", each) for each in found.get("training", [])]
    pairs += list(found.get("others", {}).items())
    if pairs:
        rows = [
            [
                name,
                text(each["steps_per_second"]),
                f"{each['share_of_stages']:.2f}" if "share_of_stages" in each else "",
                "" if each["gpu_busy"] is None else f"{each['gpu_busy']:.0%}",
                " ".join(f"{k} {report.spread(v).median:.3f}" for k, v in each["seconds"].items()),
            ]
            for name, each in pairs
        ]
        columns = ["end to end, M steps/s", "senju", "÷ stages", "GPU busy", "seconds"]
        report.print_table("training: median (min..max)", columns, rows)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="collecting,training,others", help="parts, with commas")
    parser.add_argument("--repeats", type=int, default=5, help="measures of each figure")
    common.add_common_arguments(parser)
    settings = parser.parse_args()
    repeats, parts = 1 if settings.quick else settings.repeats, settings.only.split(",")
    keep_freed_memory()
    found: Json = common.begin(settings) | {"device": torch.cuda.get_device_name()}
    if "collecting" in parts:
        found["collecting"] = []
        for case in COLLECTING:
            report.progress(f"collecting: {case}")
            found["collecting"].append(collecting(case, repeats))
    if "training" in parts:
        found["training"] = []
        for case in TRAINING:
            report.progress(f"training: {case}")
            found["training"].append(ppo(case, repeats))
    if "others" in parts:
        report.progress("DQN and independent agents")
        found["others"] = others(repeats)
    show(found)
    common.write("gpu_pipeline", found, settings)


if __name__ == "__main__":
    main()
