"""The command line and worlds in which every seat has an agent of its own."""

import json
import re
from io import StringIO
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from senju.cli import display
from senju.cli.agents import reward_text
from senju.cli.display import TrainingDisplay
from senju.cli.status import inspect, render
from senju.runs.run import Run
from senju.runs.run_config import resolve_config
from senju.training.trainer import Trainer, TrainingListener, TrainingProgress
from tests.conftest import Invoke, as_options
from tests.facts import Facts, assert_mentions
from tests.training.worlds import hunt_settings, train_hunt

MEETING = "tests.collect.toy_games:Meeting"


@pytest.fixture(scope="module")
def hunt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run; not to be written to."""
    return train_hunt(tmp_path_factory.mktemp("runs") / "hunt")


def options_for(updates: int = 4) -> list[str]:
    settings = {key: value for key, value in hunt_settings(updates).items() if key != "seats"}
    return as_options(settings)


def rows_of(table: str) -> list[list[str]]:
    lines = [line for line in table.splitlines() if line.startswith("│")]
    return [[cell.strip() for cell in line.strip("│").split("│")] for line in lines]


def test_training_shows_learners_rewards_and_the_paths_of_pictures(
    invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(display, "PLAIN_INTERVAL", 0.0)
    result = invoke("train", "--run", "my-run", *options_for())
    assert result.exit_code == 0, result.stderr
    for expected in (
        "treasure_hunt",
        "3 agents by dqn",
        "mlp (2,101 weights each)",
        "16 games",
        "nothing shared",
        "one process",
        "one after another",
        "update 1/4, ",
        "reward per game ",
        "update 2: reward per episode ",
        "played at random",
        "mean of all",
        "-bound",
        "my-run/rewards.svg",
        "my-run/episodes/update_000004.gif",
        "senju evaluate my-run",
    ):
        assert expected in result.stdout
    assert "senju play" not in result.stdout
    assert result.stderr == ""


def test_agents_of_different_kinds_are_listed_separately(invoke: Invoke) -> None:
    seats = ["--set", 'seats.1.algorithm={"name": "ppo", "minibatch_size": 160}']
    output = invoke("train", "--run", "run", *options_for(1), *seats).stdout
    assert_mentions(output, "2 agents by dqn", "mlp (2,101 weights each)", "1 agent by ppo")


def test_training_result_as_json_has_the_last_evaluation(invoke: Invoke) -> None:
    summary = json.loads(invoke("train", "--run", "run", "--json", *options_for(3)).stdout)
    (record,) = summary["episodes"]
    assert (record["update"], len(record["rewards"]), len(record["random"])) == (3, 3, 3)
    assert summary["evaluations"] == []


def test_live_display_has_a_row_for_each_agent(tmp_path: Path) -> None:
    screen = StringIO()
    console = Console(force_terminal=True, file=screen, width=150, height=60)
    run = Run.create(tmp_path / "run", resolve_config(None, hunt_settings()))
    with TrainingDisplay(console) as shown:
        Trainer(run, shown).train()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    last = text[text.rindex("╭") :]
    header = next(line for line in last.splitlines() if "reward per game" in line)
    for name in ("agent", "algorithm", "measured", "random", "loss", "random moves", "trainings", "so far"):
        assert name in header
    rows = [line.split() for line in last.splitlines() if re.search(r"agent \d", line)]
    assert [row[3] for row in rows] == ["dqn", "ppo", "dqn"]
    assert [row[-3] for row in rows] == ["4", "2", "4"]  # trainings
    assert all(len(row[-2]) == 2 for row in rows)  # a bar for each measuring
    assert [row[-4] for row in rows][1] == "—"  # PPO makes no random moves of its own
    assert "reward per game" in last
    assert "-bound" in last


def test_display_of_many_agents_stays_on_the_screen(tmp_path: Path) -> None:
    crowd = {"game": {"num_agents": 14}, "seats": {}, "evaluation": {"interval": 0}}
    settings = hunt_settings(1, **crowd) | {"total_steps": 1, "seats": {}}
    run = Run.create(tmp_path / "run", resolve_config(None, settings))
    screen = StringIO()
    console = Console(force_terminal=True, file=screen, width=150, height=60)
    with TrainingDisplay(console) as shown:
        Trainer(run, shown).train()
    text = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", screen.getvalue())
    last = text[text.rindex("╭") :]
    assert "agent 11" in last
    assert "agent 12" not in last
    assert "and 2 more" in last


def test_evaluate_measures_each_agent_beside_random_play(invoke: Invoke, hunt: Run) -> None:
    result = invoke("evaluate", hunt.path, "--games", 6)
    assert result.exit_code == 0
    assert "hunt@4, 6 episodes of 10 turns" in result.stdout
    rows = rows_of(result.stdout)
    assert [row[:2] for row in rows] == [
        ["agent 0", "dqn"],
        ["agent 1", "ppo"],
        ["agent 2", "dqn"],
        ["mean of all", ""],
    ]
    assert all(" ± " in cell for row in rows for cell in row[2:4])


def test_evaluate_as_json_agrees_with_what_training_measured(invoke: Invoke, hunt: Run) -> None:
    records = json.loads(invoke("evaluate", hunt.path, "--games", 6, "--json").stdout)
    assert [record["agent"] for record in records] == [f"hunt@4 agent {seat}" for seat in range(3)]
    assert [record["reward"] for record in records] == hunt.episodes[-1]["rewards"]
    assert [record["random_interval"] for record in records] == hunt.episodes[-1]["random_intervals"]
    other = json.loads(invoke("evaluate", hunt.path, "--games", 6, "--json", "--seed", 9).stdout)
    assert [record["reward"] for record in other] != [record["reward"] for record in records]


def test_evaluate_writes_a_film(invoke: Invoke, hunt: Run) -> None:
    result = invoke("evaluate", hunt.path, "--games", 2, "--gif", "film.gif")
    assert "An episode: film.gif" in result.stdout
    with Image.open("film.gif") as film:
        assert (film.format, getattr(film, "n_frames", 1) > 1) == ("GIF", True)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--against", "minimax:2"], ("--against minimax:2", "matches")),
        (["--temperature", "1"], ("--temperature 1", "matches")),
        (["--opening-plies", "2"], ("--opening-plies 2", "matches")),
        (["--games", "1"], ("episodes=1", "2 or more")),
        (["--gif", "film.png"], ("--gif film.png", ".gif")),
        (["--gif", "nowhere/film.gif"], "folder nowhere"),
    ],
)
def test_options_that_do_not_suit_agents_of_a_world_are_explained(
    invoke: Invoke, hunt: Run, options: list[str], expected: Facts
) -> None:
    result = invoke("evaluate", hunt.path, *options)
    assert (result.exit_code, result.stdout) == (2, "")
    assert_mentions(result.stderr, expected)


def test_film_of_matches_is_refused(invoke: Invoke, tic_tac_toe_run: Run) -> None:
    result = invoke("evaluate", tic_tac_toe_run.path, "--gif", "film.gif")
    assert (result.exit_code, result.stdout) == (2, "")
    assert "--gif" in result.stderr


def test_world_that_cannot_be_drawn_is_measured_without_a_film(invoke: Invoke, tmp_path: Path) -> None:
    changes = {"collect": {"rollout_steps": 20}, "evaluation": {"interval": 1}}
    settings = {**hunt_settings(1, **changes), "game": {"name": MEETING}, "seats": {}, "total_steps": 1}
    trained = invoke("train", "--run", "run", *as_options(settings))
    assert trained.exit_code == 0, trained.stderr
    assert "Rewards over time" in trained.stdout
    assert "An episode" not in trained.stdout
    assert Run(tmp_path / "run").episodes[0]["film"] is None
    refused = invoke("evaluate", "run", "--games", 2, "--gif", "film.gif")
    assert refused.exit_code == 2
    assert_mentions(refused.stderr, "meeting", "film")


def test_status_of_a_stopped_run_shows_the_reward_of_each_agent(invoke: Invoke, hunt: Run) -> None:
    rows = dict(rows_of(invoke("status", hunt.path).stdout))
    assert rows["state"] == "finished"
    for seat in range(3):
        assert re.search(r"\d.* update 4\b.* random \S*\d", rows[f"agent {seat}"])
    found = json.loads(invoke("status", hunt.path, "--json").stdout)
    assert found["episodes"] == hunt.episodes[-1:]


def test_status_of_a_run_in_training_shows_the_rewards_of_the_agents(tmp_path: Path) -> None:
    run = Run.create(tmp_path / "run", resolve_config(None, hunt_settings(2)))
    screen = StringIO()

    class Asks(TrainingListener):
        def on_update(self, progress: TrainingProgress) -> None:
            Console(file=screen, width=150).print(render(inspect(run.path)))

    Trainer(run, Asks()).train()
    shown = [row[1] for row in rows_of(screen.getvalue()) if row[0] == "reward per game"]
    expected = [
        ", ".join(reward_text(record[f"agent_{seat}/reward_per_game"]) for seat in range(3))
        for record in run.metrics
    ]
    assert shown == expected


@pytest.mark.slow
def test_status_lists_the_processes_in_which_agents_learn(tmp_path: Path) -> None:
    screen = StringIO()
    settings = hunt_settings(2, parallel={"enabled": True, "num_workers": 1, "num_learners": 2})
    run = Run.create(tmp_path / "run", resolve_config(None, settings))

    class Asks(TrainingListener):
        def on_update(self, progress: TrainingProgress) -> None:
            Console(file=screen, width=150).print(render(inspect(run.path)))

    Trainer(run, Asks()).train()
    learners = [row for row in rows_of(screen.getvalue()) if len(row) == 7 and row[2] in ("0, 2", "1")]
    assert [(row[0], row[2], row[4]) for row in learners] == [("0", "0, 2", "0"), ("1", "1", "0")] * 2
    # the process that is ready first may train the other's agents in the first update
    finished = [int(row[3]) for row in learners]
    assert (sum(finished[:2]), sum(finished[2:])) == (2, 5)
    assert [row[1] for row in learners[2:]] == ["waiting", "waiting"]
    assert all(row[6].isdecimal() for row in learners)


@pytest.mark.slow
def test_worlds_trained_side_by_side_are_compared_by_their_rewards(invoke: Invoke) -> None:
    result = invoke("train", "--agents", "2", "--run", "several", *options_for())
    assert result.exit_code == 0, result.stderr
    rows = {row[0]: row[1:] for row in rows_of(result.stdout) if len(row) == 4}
    for name in ("agent_1", "agent_2"):
        last = Run(Path("several") / name).episodes[-1]
        assert rows[name][0].startswith(reward_text(last["overall"]))
        assert rows[name][1] == reward_text(last["random_overall"])
    assert json.loads(Path("several/comparison.json").read_text())["rewards"]["agents"] == 2


def test_playing_against_agents_of_a_world_is_refused(invoke: Invoke, hunt: Run) -> None:
    for options in (["--run", str(hunt.path)], []):
        result = invoke("play", "treasure_hunt", *options)
        assert (result.exit_code, result.stdout) == (2, "")
        assert "take turns" in result.stderr


def test_games_shows_where_all_act_at_once(invoke: Invoke) -> None:
    rows = {row[0]: row[1] for row in rows_of(invoke("games").stdout)}
    assert (rows["treasure_hunt"], rows["cleanup"], rows["tag"]) == ("2 at once", "10 at once", "5 at once")
    assert rows["tic_tac_toe"] == "2"
