"""Networks on a device for batches of any size: each row's outputs are those of the model."""

import numpy as np
import pytest
import torch

from senju.collect.device_actor import DeviceEvaluation, DeviceProgram
from senju.collect.device_network import DeviceNetwork
from senju.games import make_game
from senju.models import make_model

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("count", [0, 1, 63, 64, 65, 257, 300])
def test_every_row_has_the_models_outputs(device: str, count: int) -> None:
    game = make_game(name="connect_four")
    settings = {"name": "mlp", "hidden": [32]}
    model = make_model(settings, game.observation_shape, game.num_actions, seed=3)
    seen = np.random.default_rng(count).integers(0, 2, (count, *game.observation_shape)).astype(np.uint8)
    with torch.no_grad():
        logits, values = model(torch.from_numpy(seen).float())
    network = DeviceNetwork(DeviceProgram(DeviceEvaluation(device)), game, model, num_rows=300)
    for _ in range(2):  # the second time without a capture
        found_logits, found_values = network.evaluate(seen[:, None])
        np.testing.assert_allclose(found_logits, logits.numpy(), rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found_values, values.numpy(), rtol=1e-4, atol=1e-5)


def test_new_weights_are_played_at_once() -> None:
    game = make_game(name="connect_four")
    model = make_model({"name": "mlp", "hidden": [8]}, game.observation_shape, game.num_actions, seed=3)
    network = DeviceNetwork(DeviceProgram(DeviceEvaluation("cpu")), game, model, num_rows=4)
    seen = np.ones((2, 1, *game.observation_shape), np.uint8)
    before, _ = network.evaluate(seen)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2.0)
    after, _ = network.evaluate(seen)
    assert not np.allclose(before, after)
