"""`senju verify`, `bench`, `profile`, `soak` and `reproduce`: their text and their JSON."""

import json
from pathlib import Path

import pytest

from senju.cli.trials import names, numbers
from senju.errors import ConfigError
from tests.conftest import Invoke
from tests.facts import Facts, assert_mentions
from tests.trials.test_replay import saved

GAMES = "tests.trials.unequal_games"
QUICK = ("--set", "threads=1", "--set", "model.hidden=[16]")


@pytest.mark.parametrize("text", ["", "0", "1,two", "-1", "1;2", ",", "9" * 5000])
def test_list_of_workers_that_is_none_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match=r"--workers .*numbers"):
        numbers(text)


def test_lists_are_read_once_each_and_in_order() -> None:
    assert numbers("4, 1,4,") == [4, 1]
    assert names("threads,serial", "--backends") == ["threads", "serial"]
    with pytest.raises(ConfigError, match="expected names"):
        names(" ", "--backends")


def test_verify_shows_equal_candidates(invoke: Invoke) -> None:
    result = invoke("verify", "tic_tac_toe", "--backends", "serial,threads", "--workers", "1,2", *QUICK)
    assert result.exit_code == 0
    for expected in ("5 shards of 16 games", "serial, once more", "threads, 2 workers", "equal"):
        assert expected in result.stdout
    assert "Equal" in result.stdout
    assert "different" not in result.stdout


def test_verify_without_a_game_plays_connect_four(invoke: Invoke) -> None:
    result = invoke("verify", "--backends", "serial", "--json", *QUICK)
    assert result.exit_code == 0, result.stderr
    assert json.loads(result.stdout)["game"] == "connect_four"


def test_verify_names_the_first_byte_that_differs(invoke: Invoke) -> None:
    result = invoke("verify", f"{GAMES}:SeesCounter", "--backends", "serial", *QUICK)
    assert result.exit_code == 1
    assert "different" in result.stdout
    where = ("update 1", "shard 0", "observation[0, 0, 0, 0]", "byte 0")
    assert_mentions(result.stdout, "serial, once more", where, "one process")


def test_verify_gives_the_same_result_as_json(invoke: Invoke) -> None:
    result = invoke("verify", f"{GAMES}:SeesCounter", "--backends", "serial", "--json", *QUICK)
    assert result.exit_code == 1
    record = json.loads(result.stdout)
    assert record["is_equal"] is False
    difference = record["candidates"][0]["difference"]
    assert (difference["array"], difference["index"], difference["byte"]) == ("observation", [0, 0, 0, 0], 0)
    assert record["candidates"][0]["updates"] == 1
    assert result.stderr == ""


@pytest.mark.slow
def test_verify_holds_while_processes_are_killed(invoke: Invoke) -> None:
    options = ("--backends", "processes", "--workers", "2", "--updates", "2", "--kill", "--json")
    result = invoke("verify", "tic_tac_toe", *options, *QUICK)
    assert result.exit_code == 0
    (verdict,) = json.loads(result.stdout)["candidates"]
    assert (verdict["is_equal"], verdict["kills"]) == (True, 2)
    assert result.stderr == ""


@pytest.mark.slow
def test_verify_names_the_cause_where_only_processes_differ(invoke: Invoke) -> None:
    options = ("--workers", "1", "--updates", "2", "--backends", "serial,processes")
    result = invoke("verify", f"{GAMES}:SeesProcess", *options, *QUICK)
    assert result.exit_code == 1
    assert_mentions(result.stdout, "different", "depends on")


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["verify", "chess"], "unknown game 'chess'"),
        (["verify", "tic_tac_toe", "--workers", "none"], "--workers 'none'"),
        (["verify", "tic_tac_toe", "--backends", "thread"], ("'thread'", "'threads'")),
        (["verify", "tic_tac_toe", "--set", "collect.mode=async"], "collect.mode='async'"),
        (["soak", "tic_tac_toe", "--set", "collect.mode=async"], "collect.mode='async'"),
        (["bench", "tic_tac_toe", "--backend", "procesess"], ("'procesess'", "'processes'")),
        (["profile", "tic_tac_toe", "--set", "modle=mlp"], ("'modle'", "'model'")),
    ],
)
def test_mistakes_are_explained(invoke: Invoke, arguments: list[str], expected: Facts) -> None:
    result = invoke(*arguments)
    assert result.exit_code == 2
    assert_mentions(result.stderr, expected)


BENCH = ("bench", "tic_tac_toe", "--backend", "threads", "--workers", "1,2", "--seconds", "0.05")


@pytest.mark.slow
def test_bench_shows_every_entrant_and_what_the_stages_allow(invoke: Invoke) -> None:
    result = invoke(*BENCH, "--repeats", "1", "--set", "collect.rollout_steps=4")
    assert result.exit_code == 0
    for expected in ("serial, 1 thread", "1 worker", "2 workers", "efficiency", "stages allow", "reached"):
        assert expected in result.stdout
    assert "2 shards of 64 games" in result.stdout
    assert_mentions(result.stdout, "add up", "evaluate")


@pytest.mark.slow
def test_bench_gives_every_repeat_as_json(invoke: Invoke) -> None:
    options = ("--repeats", "2", "--mode", "async", "--set", "collect.rollout_steps=4", "--json")
    record = json.loads(invoke(*BENCH, *options).stdout)
    assert record["config"]["collect"]["mode"] == "async"
    assert [one["entrant"]["name"] for one in record["entrants"]][-2:] == ["1 worker", "2 workers"]
    assert record["entrants"][-1]["efficiency"]["median"] > 0
    assert {len(repeats) for repeats in record["repeats"].values()} == {2}
    assert record["machine"]["cores"] >= 1


def test_game_of_the_settings_is_taken_before_the_usual_one(invoke: Invoke) -> None:
    Path("my.yaml").write_text("game: tic_tac_toe\ncollect: {rollout_steps: 4}\n")
    options = ("--config", "my.yaml", "--workers", "1", "--backend", "threads")
    record = json.loads(invoke("bench", *options, "--seconds", "0.05", "--repeats", "1", "--json").stdout)
    assert record["game"] == "tic_tac_toe"


PROFILE = ("profile", "tic_tac_toe", "--backend", "threads", "--workers", "2", "--updates", "2")


def test_profile_compares_and_writes_both_timelines(invoke: Invoke) -> None:
    result = invoke(*PROFILE)
    assert result.exit_code == 0
    for expected in (
        "collecting: evaluate",
        "learning: backward",
        "× serial",
        "-bound",
        "threads, 2 workers",
    ):
        assert expected in result.stdout
    written = sorted(path.name for path in Path("profiles/tic_tac_toe").iterdir())
    assert written == ["timeline-serial.json", "timeline-serial.svg", "timeline.json", "timeline.svg"]


def test_profile_gives_the_stages_and_the_files_as_json(invoke: Invoke) -> None:
    record = json.loads(invoke(*PROFILE, "--out", "here", "--json").stdout)
    assert [one["backend"] for one in record["profiles"]] == ["serial", "threads"]
    for one in record["profiles"]:
        assert one["stages"]["evaluate"] > 0
        assert Path(one["picture"]).is_file()
        assert json.loads(Path(one["trace"]).read_text())["traceEvents"]
    assert record["speed_up"] > 0


@pytest.mark.slow
def test_soak_ends_with_counts_leftovers_and_a_verdict(invoke: Invoke) -> None:
    result = invoke("soak", "tic_tac_toe", "--duration", "4", "--seed", "1", "--set", "model.hidden=[16]")
    assert result.exit_code == 0, result.stdout
    for expected in ("kills", "resizes", "recovered", "memory of a worker", "nothing"):
        assert expected in result.stdout
    assert_mentions(result.stdout, "equal", "serial run")


@pytest.mark.slow
def test_soak_gives_all_results_as_json_and_fails_where_bytes_differ(invoke: Invoke) -> None:
    options = ("--duration", "1", "--set", "backend.name=threads", "--set", "backend.num_workers=2", "--json")
    result = invoke("soak", f"{GAMES}:SeesCounter", *options, *QUICK)
    assert result.exit_code == 1
    record = json.loads(result.stdout)
    assert (record["is_equal"], record["first_different_update"]) == (False, 1)
    assert record["leftovers"] == {}
    assert set(record["disturbances"]) == {"kill", "hang", "pause", "resize", "reset"}
    assert record["own_memory"]["first"] > 0


def test_reproduce_shows_the_cause_and_the_failure(invoke: Invoke, tmp_path: Path) -> None:
    file = saved(tmp_path, f"{GAMES}:Failing")
    result = invoke("reproduce", file)
    assert result.exit_code == 1
    for expected in (
        "worker 0 was killed",
        "1 (rows 4 to 7)",
        "Traceback",
        "failed again: ZeroDivisionError: ",
    ):
        assert expected in result.stdout
    record = json.loads(invoke("reproduce", file, "--json").stdout)
    assert (record["failed"], record["shard"], record["rollout"], record["version"]) == (True, 1, 3, 7)


def test_reproduce_says_when_nothing_fails(invoke: Invoke, tmp_path: Path) -> None:
    result = invoke("reproduce", saved(tmp_path, "tests.collect.toy_games:Race"))
    assert result.exit_code == 0
    assert_mentions(result.stdout, "finished", "without failing")


def test_reproduce_refuses_another_file(invoke: Invoke) -> None:
    result = invoke("reproduce", "nothing.safetensors")
    assert result.exit_code == 1
    assert "nothing.safetensors" in result.stderr
