"""Where the time goes, in words, and what would help."""

import inspect
import re
from typing import Any, NamedTuple

import pytest

from senju.algorithms.dqn import DQNConfig
from senju.algorithms.ppo import PPOConfig
from senju.config import Part
from senju.runs import stages as stages_module
from senju.runs.run import Run
from senju.runs.run_config import CheckpointConfig, CollectConfig, EvaluationConfig
from senju.runs.stages import GROUPS, Setting, explain, share_of_groups
from tests.facts import assert_mentions

COLLECTING = {"evaluate": 71.0, "step": 5.0, "backward": 24.0}
LEARNING = {"evaluate": 20.0, "backward": 80.0}
PARTS: dict[str, tuple[type[Part], ...]] = {
    "collect": (CollectConfig,),
    "algorithm": (PPOConfig, DQNConfig),
    "evaluation": (EvaluationConfig,),
    "checkpoint": (CheckpointConfig,),
}


def setting(**changes: Any) -> Setting:
    """Eight workers on eight cores with two shards each, so no advice is about workers."""
    return Setting("processes", 8, cores=8, num_shards=16, device="cpu", mode="sync")._replace(**changes)


class Advised(NamedTuple):
    """A situation and the facts of the line that explains it."""

    stages: dict[str, float]
    setting: Setting
    facts: tuple[str, ...]


TO_CHANGE = re.compile(r"--\w+ \d+|[a-z]+\.[a-z_]+(?:=\w+)?")  # options and settings
ADVISED = {
    "serial on many cores": Advised(
        COLLECTING,
        setting(backend="serial", num_workers=1),
        (
            "collecting-bound 76 % (evaluate 71 %)",
            "--workers 8",
            "one worker",
            "8 cores",
            "16 shards",
            "learning 24 %",
        ),
    ),
    "few workers": Advised(
        COLLECTING,
        setting(num_workers=2),
        (
            "collecting-bound 76 % (evaluate 71 %)",
            "--workers 8",
            "2 of 8 cores",
            "16 shards",
            "learning 24 %",
        ),
    ),
    "more workers than cores": Advised(
        COLLECTING,
        setting(num_workers=16),
        ("collecting-bound 76 % (evaluate 71 %)", "16 workers", "8 cores", "--workers 8", "learning 24 %"),
    ),
    "as many workers as shards": Advised(
        COLLECTING,
        setting(num_workers=4, num_shards=4),
        (
            "collecting-bound 76 % (evaluate 71 %)",
            "more shards",
            "multiple of 8",
            "8 cores",
            "now 4",
            "collect.num_games / collect.games_per_shard",
            "learning 24 %",
        ),
    ),
    "uneven shards": Advised(
        {"evaluate": 50.0, "waiting": 40.0, "backward": 10.0},
        setting(num_shards=9),
        (
            "collecting-bound 50 % (evaluate 50 %)",
            "shards",
            "multiple",
            "9 shards, 8 workers",
            "waiting for workers 40 %",
            "learning 10 %",
        ),
    ),
    "even shards and yet idle": Advised(
        {"evaluate": 40.0, "waiting": 50.0, "backward": 10.0},
        setting(),
        ("waiting-bound 50 %", "replaced", "paused", "timeline", "collecting 40 %", "learning 10 %"),
    ),
    "every core busy beside a GPU": Advised(
        COLLECTING,
        setting(device="cuda"),
        ("collecting-bound 76 % (evaluate 71 %)", "every core", "collect.mode=async", "learning 24 %"),
    ),
    "every core evaluates": Advised(
        COLLECTING,
        setting(),
        (
            "collecting-bound 76 % (evaluate 71 %)",
            "every core",
            "smaller network",
            "collect.games_per_shard",
            "learning 24 %",
        ),
    ),
    "slow game": Advised(
        {"step": 60.0, "evaluate": 20.0, "backward": 20.0},
        setting(),
        ("collecting-bound 80 % (step 60 %)", "every core", "game", "slow", "more cores", "learning 20 %"),
    ),
    "GPU waits for a serial backend": Advised(
        LEARNING,
        setting(backend="serial", num_workers=1, device="cuda"),
        ("learning-bound 80 % (backward 80 %)", "--workers 8", "collect.mode=async", "collecting 20 %"),
    ),
    "workers wait for the GPU": Advised(
        LEARNING,
        setting(device="cuda:1"),
        ("learning-bound 80 % (backward 80 %)", "collect.mode=async", "collecting 20 %"),
    ),
    "learning and collecting on the same cores": Advised(
        LEARNING,
        setting(num_workers=2),
        (
            "learning-bound 80 % (backward 80 %)",
            "--workers 8",
            "smaller network",
            "algorithm.precision=bfloat16",
            "collecting 20 %",
        ),
    ),
    "learning on the CPU": Advised(
        LEARNING,
        setting(),
        (
            "learning-bound 80 % (backward 80 %)",
            "not help",
            "smaller network",
            "algorithm.precision=bfloat16",
            "GPU",
            "collecting 20 %",
        ),
    ),
    "a learner that replays": Advised(
        LEARNING,
        setting(is_replaying=True),
        (
            "learning-bound 80 % (backward 80 %)",
            "not help",
            "smaller network",
            "algorithm.replay_ratio",
            "algorithm.steps_per_batch",
            "collecting 20 %",
        ),
    ),
    "busy GPU": Advised(
        LEARNING,
        setting(device="cuda", mode="async"),
        (
            "learning-bound 80 % (backward 80 %)",
            "not help",
            "smaller network",
            "algorithm.precision=bfloat16",
            "algorithm.minibatch_size",
            "collecting 20 %",
        ),
    ),
    "a GPU that evaluates and learns, learning": Advised(
        LEARNING,
        setting(device="cuda", is_on_device=True),
        (
            "learning-bound 80 % (backward 80 %)",
            "GPU learns",
            "smaller network",
            "fewer epochs",
            "larger minibatches",
            "collecting 20 %",
        ),
    ),
    "a GPU that evaluates and learns, evaluating": Advised(
        COLLECTING,
        setting(device="cuda", is_on_device=True),
        ("collecting-bound 76 % (evaluate 71 %)", "GPU evaluates", "smaller network", "learning 24 %"),
    ),
    "a GPU that waits for games": Advised(
        {"step": 60.0, "evaluate": 20.0, "backward": 20.0},
        setting(device="cuda", is_on_device=True),
        ("collecting-bound 80 % (step 60 %)", "stepping", "limit", "more cores", "learning 20 %"),
    ),
    "a GPU that waits for too few threads": Advised(
        {"step": 60.0, "evaluate": 20.0, "backward": 20.0},
        setting(device="cuda", num_workers=2, is_on_device=True),
        ("collecting-bound 80 % (step 60 %)", "stepping", "limit", "--workers 8", "learning 20 %"),
    ),
    "matches": Advised(
        {"match": 3.0, "step": 1.0},
        setting(),
        (
            "measuring strength-bound 75 % (match 75 %)",
            "evaluation.interval",
            "evaluation.games",
            "collecting 25 %",
        ),
    ),
    "checkpoints": Advised(
        {"checkpoint": 2.0, "publish": 1.0, "step": 1.0},
        setting(),
        ("saving-bound 75 % (checkpoint 50 %)", "checkpoint.interval", "collecting 25 %"),
    ),
    "publishing": Advised(
        {"checkpoint": 1.0, "publish": 2.0, "step": 1.0},
        setting(),
        ("saving-bound 75 % (publish 50 %)", "longer rollouts", "collect.rollout_steps", "collecting 25 %"),
    ),
    "just started": Advised(
        {"start": 3.0, "step": 1.0},
        setting(),
        ("starting-bound 75 % (start 75 %)", "once", "longer run", "collecting 25 %"),
    ),
}


def test_stages_are_gathered_and_the_largest_group_comes_first() -> None:
    stages = {"observe": 1.0, "evaluate": 2.0, "backward": 6.0, "match": 0.5, "checkpoint": 0.5}
    shares = share_of_groups(stages)
    assert list(shares)[:2] == ["learning", "collecting"]
    assert shares == {"learning": 0.6, "collecting": 0.3, "measuring strength": 0.05, "saving": 0.05}


def test_unknown_stage_is_counted_as_other() -> None:
    assert share_of_groups({"daydream": 3.0, "step": 1.0}) == {"other": 0.75, "collecting": 0.25}
    assert explain({"daydream": 3.0, "step": 1.0}) == "other-bound 75 % (daydream 75 %); collecting 25 %"


def test_explanation_names_the_bound_and_its_slowest_stage() -> None:
    stages = {"evaluate": 71.0, "step": 0.0, "forward": 14.0, "backward": 10.0, "match": 5.0}
    expected = "collecting-bound 71 % (evaluate 71 %); learning 24 %; measuring strength 5 %"
    assert explain(stages) == expected


def test_nothing_timed_is_said_to_be_nothing() -> None:
    assert explain({}) == "nothing timed yet"
    assert explain({"step": 0.0}) == "nothing timed yet"
    assert share_of_groups({}) == {}


def test_every_stage_of_a_real_run_belongs_to_a_group(tic_tac_toe_run: Run) -> None:
    known = {name for names in GROUPS.values() for name in names}
    timed = {name for record in tic_tac_toe_run.metrics for name in record["stages"]}
    assert timed <= known
    assert sum(share_of_groups(tic_tac_toe_run.metrics[-1]["stages"]).values()) == pytest.approx(1.0)


@pytest.mark.parametrize("case", ADVISED.values(), ids=ADVISED)
def test_advice_fits_the_situation(case: Advised) -> None:
    line = explain(case.stages, setting=case.setting)
    assert_mentions(line, case.facts)
    assert set(TO_CHANGE.findall(line)) == set(TO_CHANGE.findall(" ".join(case.facts)))  # and nothing else


def test_every_advice_has_its_case() -> None:
    functions = [f for name, f in vars(stages_module).items() if name.startswith("_advice")]
    num_returns = sum(inspect.getsource(function).count("return ") for function in functions)
    advice = {explain(case.stages, setting=case.setting).split("): ")[-1] for case in ADVISED.values()}
    assert len(advice) == len(ADVISED) == num_returns - 3  # three of them call the other functions


def test_advice_names_settings_that_exist() -> None:
    lines = " ".join(explain(case.stages, setting=case.setting) for case in ADVISED.values())
    named = set(re.findall(r"\b([a-z]+)\.([a-z_]+)", lines))
    assert ("collect", "games_per_shard") in named
    for part, key in named:
        assert any(key in config.model_fields for config in PARTS[part]), f"{part}.{key}"


def test_without_a_setting_there_is_no_advice() -> None:
    for case in ADVISED.values():
        line = explain(case.stages)
        assert "-bound" in line
        assert ":" not in line


def test_unknown_stages_get_no_advice() -> None:
    assert explain({"daydream": 3.0, "step": 1.0}, setting=setting()) == explain(
        {"daydream": 3.0, "step": 1.0}
    )
    assert explain({}, setting=setting()) == "nothing timed yet"


def test_slowest_of_the_unknown_stages_is_an_unknown_one() -> None:
    assert (
        explain({"nap": 3.0, "daydream": 3.0, "step": 4.0}) == "other-bound 60 % (nap 30 %); collecting 40 %"
    )


def test_waiting_counts_as_collecting_where_advice_is_given() -> None:
    stages = {"evaluate": 30.0, "waiting": 25.0, "backward": 45.0}
    line = explain(stages, setting=setting(num_shards=9))
    assert line.startswith("learning-bound 45 % (backward 45 %); collecting 30 %: ")
    assert_mentions(line, "multiple", "9 shards, 8 workers", "waiting for workers 25 %")
    stages = {"evaluate": 25.0, "waiting": 30.0, "backward": 45.0}
    line = explain(stages, setting=setting(num_shards=9))
    assert_mentions(line.split("; waiting for workers 30 %: ")[1], "multiple")


def test_a_little_waiting_is_not_blamed() -> None:
    stages = {"evaluate": 80.0, "waiting": 10.0, "backward": 10.0}
    assert_mentions(explain(stages, setting=setting(num_shards=17)), "every core")


@pytest.mark.parametrize(
    ("cores", "num_shards", "mode", "useful"),
    [
        (8, 16, "sync", 8),
        (8, 4, "sync", 4),  # no more workers than shards
        (6, 8, "sync", 4),  # two rounds with four workers, and with six
        (3, 4, "sync", 2),
        (3, 4, "async", 3),  # no rounds there
        (1, 5, "sync", 1),
    ],
)
def test_only_workers_that_save_a_round_help(cores: int, num_shards: int, mode: str, useful: int) -> None:
    assert setting(cores=cores, num_shards=num_shards, mode=mode).useful_workers == useful


@pytest.mark.parametrize(("cores", "num_shards"), [(6, 8), (3, 4), (8, 4)])
def test_every_worker_with_a_shard_helps_where_rollouts_are_played_in_parts(
    cores: int, num_shards: int
) -> None:
    found = setting(cores=cores, num_shards=num_shards, splits_rollouts=True)
    assert found.useful_workers == min(cores, num_shards)


def test_workers_that_would_save_no_round_are_not_advised() -> None:
    line = explain(COLLECTING, setting=setting(num_workers=2, cores=3, num_shards=4))
    assert_mentions(line, "more shards", "multiple of 3")
    asynchronous = setting(num_workers=2, cores=3, num_shards=4, mode="async")
    assert_mentions(explain(COLLECTING, setting=asynchronous), "more workers", "--workers 3")


def test_one_shard_cannot_be_shared() -> None:
    line = explain(COLLECTING, setting=setting(backend="serial", num_workers=1, num_shards=1))
    assert_mentions(line, "more shards", "multiple of 8")


def test_overlap_that_gains_little_is_not_advised() -> None:
    line = explain({"evaluate": 5.0, "backward": 95.0}, setting=setting(device="cuda", num_workers=2))
    assert "async" not in line
    assert_mentions(line, "not help")


@pytest.mark.parametrize("used", [setting(device="cuda"), None])
def test_line_ends_with_the_busy_share_of_the_gpu(used: Setting | None) -> None:
    line = explain(LEARNING, setting=used)
    assert "the GPU was busy" not in line
    assert explain(LEARNING, setting=used, gpu_busy=0.918) == f"{line}; the GPU was busy 92 %"
