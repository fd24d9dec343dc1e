"""Runs in which every seat has an agent of its own: their agents, evaluations, pictures and refusals."""

import json
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
from PIL import Image

import senju
from senju.config import Settings
from senju.errors import CheckpointError, ConfigError
from senju.evaluation.episodes import play_episodes
from senju.evaluation.opponents import make_player
from senju.runs.interrupt import StopRequest
from senju.runs.run import Run
from senju.runs.run_config import resolve_config
from senju.training.trainer import Trainer, TrainingListener, TrainingProgress
from tests.facts import mentions
from tests.training.worlds import NUM_AGENTS, TURNS, hunt_settings, train_hunt

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def hunt(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A finished run; not to be written to."""
    return train_hunt(tmp_path_factory.mktemp("runs") / "hunt")


def saved_bytes(run: Run) -> bytes:
    return (run.checkpoints.latest() / "tensors.safetensors").read_bytes()


def measured_again(run: Run) -> list[float]:
    games, seed = run.config.evaluation.games, run.config.seed
    return list(play_episodes(run.game, run.agents, games, seed).rewards)


def test_run_has_an_agent_for_each_seat_with_its_own_kind_and_weights(hunt: Run) -> None:
    agents = Run(hunt.path).agents
    assert [agent.name for agent in agents] == ["hunt@4 agent 0", "hunt@4 agent 1", "hunt@4 agent 2"]
    assert [agent.acting.by for agent in agents] == ["action_values", "policy", "action_values"]
    saved = hunt.load(hunt.checkpoints.latest()).tensors
    for seat, agent in enumerate(agents):
        for name, weights in agent.model.state_dict().items():
            assert torch.equal(weights, saved[f"learner.{seat}.model.{name}"])


def test_run_with_one_agent_lists_that_one(tic_tac_toe_run: Run) -> None:
    (only,) = tic_tac_toe_run.agents
    assert only.name == tic_tac_toe_run.agent.name
    (older,) = tic_tac_toe_run.agents_at("2")
    assert older.name == "tic_tac_toe@2"
    assert tic_tac_toe_run.episodes == []


def test_asking_for_a_single_agent_names_the_others(hunt: Run) -> None:
    expected = mentions("hunt", "no single agent", "3 seats", "run.agents")
    with pytest.raises(ConfigError, match=expected):
        _ = hunt.agent
    with pytest.raises(ConfigError, match=expected):
        hunt.agent_at("4")
    with pytest.raises(ConfigError, match=expected):
        make_player(hunt.game, str(hunt.path))


def test_what_was_measured_at_the_end_is_what_was_saved(hunt: Run) -> None:
    assert hunt.episodes[-1]["rewards"] == measured_again(hunt)


def test_evaluations_are_records_with_random_play_beside_them(hunt: Run) -> None:
    first, last = hunt.episodes
    assert (first["update"], last["update"]) == (2, 4)
    assert last["steps"] == hunt.metrics[-1]["steps"]
    assert last["episodes"] == 6
    assert last["turns"] == TURNS
    for low, high in last["intervals"]:
        assert low < high
    alone = play_episodes(hunt.game, None, 6, hunt.config.seed)
    assert last["random"] == first["random"] == list(alone.rewards)
    assert hunt.evaluations == []


def test_every_evaluation_leaves_a_film_of_an_episode(hunt: Run) -> None:
    assert [record["film"] for record in hunt.episodes] == [
        "episodes/update_000002.gif",
        "episodes/update_000004.gif",
    ]
    for record in hunt.episodes:
        with Image.open(hunt.path / record["film"]) as film:
            assert getattr(film, "n_frames", 1) > 1


def test_picture_of_rewards_has_a_curve_and_a_dashed_line_for_each_agent(hunt: Run) -> None:
    picture = ElementTree.fromstring((hunt.path / "rewards.svg").read_text(encoding="utf-8"))
    curves = picture.findall(f"{SVG}polyline")
    dashed = [curve for curve in curves if curve.get("stroke-dasharray")]
    assert len(dashed) == NUM_AGENTS
    assert len(curves) - len(dashed) == 2 * NUM_AGENTS  # measured, and in training


def test_update_records_the_reward_and_the_trainings_of_every_agent(hunt: Run) -> None:
    last = hunt.metrics[-1]
    rewards = [last[f"agent_{seat}/reward_per_game"] for seat in range(NUM_AGENTS)]
    assert rewards == pytest.approx([TURNS * last[f"agent_{seat}/reward"] for seat in range(NUM_AGENTS)])
    assert last["reward_per_game"] == pytest.approx(sum(rewards) / NUM_AGENTS)
    assert [last[f"agent_{seat}/trainings"] for seat in range(NUM_AGENTS)] == [4, 2, 4]
    assert "first_seat_mean_reward" not in last


def test_update_in_which_no_game_ends_has_no_reward_per_game(tmp_path: Path) -> None:
    changes = {"collect": {"rollout_steps": 5}, "seats": {"1": {"algorithm": {"minibatch_size": 40}}}}
    run = train_hunt(tmp_path / "run", 2, evaluation={"interval": 0}, **changes)
    halves = [record for record in run.metrics if not record["games_finished"]]
    wholes = [record for record in run.metrics if record["games_finished"]]
    assert len(halves) == len(wholes) == 2
    assert all("reward_per_game" not in record for record in halves)
    assert all("reward_per_game" in record for record in wholes)


def test_evaluation_and_saving_do_not_change_training(hunt: Run, tmp_path: Path) -> None:
    watched = train_hunt(
        tmp_path / "watched", evaluation={"interval": 1, "games": 20}, checkpoint={"interval": 1}
    )
    assert [record["update"] for record in watched.episodes] == [1, 2, 3, 4]
    assert saved_bytes(watched) == saved_bytes(hunt)


def test_stopping_and_resuming_changes_no_byte_and_goes_on_counting(hunt: Run, tmp_path: Path) -> None:
    halves = train_hunt(tmp_path / "halves", max_updates=3)
    resumed = senju.train(resume=halves.path)
    assert saved_bytes(resumed) == saved_bytes(hunt)
    assert resumed.metrics[-1]["agent_0/trainings"] == 4
    assert resumed.episodes == hunt.episodes


class StopsAtUpdate(TrainingListener):
    """Asks to stop after an update, before it is measured."""

    def __init__(self, stop: StopRequest, update: int) -> None:
        self.stop, self.update = stop, update

    def on_update(self, progress: TrainingProgress) -> None:
        if progress.update == self.update:
            self.stop.signal = signal.SIGINT


def test_learners_chosen_automatically_on_resume_are_saved_as_what_they_are(tmp_path: Path) -> None:
    run = train_hunt(tmp_path / "hunt", max_updates=1)
    changes: Settings = {"learners": "auto", "parallel": {"num_learners": 2}}
    config = senju.train(resume=run.path, max_updates=1, **changes).config
    assert (config.learners, config.parallel.num_learners) == ("sequential", 2)


def test_interval_of_trainings_cannot_change_on_resume(tmp_path: Path) -> None:
    run = train_hunt(tmp_path / "hunt", max_updates=1)
    with pytest.raises(ConfigError, match=mentions("parallel.train_interval", "parallel.num_learners")):
        senju.train(resume=run.path, parallel={"train_interval": 2})
    config = run.path / "config.yaml"
    config.write_text(config.read_text().replace("train_interval: 1", "train_interval: 2"))
    with pytest.raises(CheckpointError, match=mentions("parallel.train_interval", "1", "2")):
        senju.train(resume=run.path)


@pytest.mark.parametrize("update", [2, 4])
def test_evaluation_that_a_stop_prevented_is_done_on_resume(tmp_path: Path, hunt: Run, update: int) -> None:
    run = Run.create(tmp_path / "hunt", resolve_config(None, hunt_settings()))
    stop = StopRequest()
    assert not Trainer(run, StopsAtUpdate(stop, update)).train(stop)
    assert [record["update"] for record in run.episodes] == list(range(2, update, 2))
    assert Trainer(run).train()
    assert run.episodes == hunt.episodes
    assert Trainer(run).train()
    assert len(run.episodes) == 2


def test_timeline_has_a_track_for_each_agent_with_its_trainings(hunt: Run) -> None:
    trace = json.loads((hunt.path / "timeline.json").read_text())["traceEvents"]
    names = {event["tid"]: event["args"]["name"] for event in trace if event["name"] == "thread_name"}
    assert list(names.values()) == ["learner", "worker 0", "agent 0", "agent 1", "agent 2"]
    trained = [names[event["tid"]] for event in trace if event.get("cat") == "train"]
    assert {name: trained.count(name) for name in trained} == {"agent 0": 4, "agent 1": 2, "agent 2": 4}


@pytest.mark.slow
def test_agents_that_learn_while_games_go_on_are_awaited_before_they_are_saved_and_measured(
    tmp_path: Path,
) -> None:
    parallel = {"enabled": True, "async_learning": True, "parallel_actions": False}
    run = train_hunt(tmp_path / "run", 6, parallel=parallel, learners="processes")
    assert run.episodes[-1]["update"] == run.config.total_updates == 6
    assert run.episodes[-1]["rewards"] == measured_again(run)


@pytest.mark.slow
def test_run_resumed_in_mid_interval_with_learners_in_processes_ends_with_the_same_bytes(
    hunt: Run, tmp_path: Path
) -> None:
    train_hunt(tmp_path / "cut", max_updates=3)  # agent 1 has yet to learn from the third
    run = senju.train(resume=tmp_path / "cut", learners="processes")
    expected, found = (each.load(each.checkpoints.latest()).tensors for each in (hunt, run))
    assert set(found) == set(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
