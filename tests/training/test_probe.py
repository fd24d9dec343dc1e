"""The short trial behind `senju doctor`."""

from pathlib import Path

import pytest
import torch

from senju.errors import ConfigError
from senju.training.probe import probe
from tests.facts import mentions


def test_probe_reports_the_speed_of_each_stage_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    threads = torch.get_num_threads()
    tried = probe("tic_tac_toe", updates=1)
    assert tried.game == "tic_tac_toe"
    assert tried.collecting > tried.end_to_end > 0
    assert tried.learning > tried.end_to_end
    assert "-bound" in tried.explanation
    assert list(tmp_path.iterdir()) == []
    assert torch.get_num_threads() == threads


def test_probe_of_an_unknown_game_names_the_nearest() -> None:
    with pytest.raises(ConfigError, match=mentions("'tictactoe'", "'tic_tac_toe'")):
        probe("tictactoe")
