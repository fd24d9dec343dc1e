"""Networks: their size, where their first weights come from, and what the contract refuses."""

import math

import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from senju.config import Part
from senju.errors import ConfigError, ModelError
from senju.games import make_game
from senju.machine import math_threads
from senju.models import MODELS, Model, build_model
from senju.models.mlp import Mlp, MlpConfig
from senju.models.model import ModelConfig
from senju.models.resnet import ResNet, ResNetConfig
from senju.models.weights import WeightBlock

PLANES = (2, 6, 7)
NUM_ACTIONS = {"mlp": 7, "resnet": 7, "plane_net": 84}  # the last has as many as two planes have squares


def build(name: str, seed: int = 0, shape: tuple[int, ...] = PLANES, num_actions: int | None = None) -> Model:
    number = num_actions or NUM_ACTIONS[name]
    return build_model(MODELS.get(name), shape, number, MODELS.configure({"name": name}), seed)


def observations(num_rows: int) -> Tensor:
    generator = torch.Generator().manual_seed(num_rows)
    return torch.randint(0, 2, (num_rows, *PLANES), generator=generator).float()


def count_weights(model: nn.Module) -> int:
    return sum(parameter.numel() for parameter in model.parameters())


class OneLayer(Model):
    """The smallest model that keeps the contract, with room for a layer that may break it."""

    def __init__(self, observation_shape: tuple[int, ...], num_actions: int, config: Part) -> None:
        super().__init__(observation_shape, num_actions, config)
        self.between = self.layer()
        self.head = nn.Linear(math.prod(observation_shape), num_actions + 1)

    def layer(self) -> nn.Module:
        return nn.Identity()

    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        output = self.head(self.between(observation).flatten(1))
        return output[:, :-1], output[:, -1]


def build_own(cls: type[Model], shape: tuple[int, ...] = PLANES) -> Model:
    return build_model(cls, shape, 7, cls.Config(), seed=0)


def test_default_mlp_on_connect_four_has_89608_weights() -> None:
    game = make_game("connect_four")
    model = build("mlp", shape=game.observation_shape, num_actions=game.num_actions)
    assert count_weights(model) == 89_608
    assert WeightBlock(model).num_bytes == 4 * 89_608


def test_resnet_has_the_weights_its_settings_ask_for() -> None:
    config = ResNetConfig(channels=8, blocks=3, head_width=16)
    model = build_model(ResNet, PLANES, 7, config, seed=0)
    stem, block = 2 * 8 * 9 + 8, 2 * (8 * 8 * 9 + 8)
    hidden, head = 8 * 42 * 16 + 16, 16 * 8 + 8
    assert count_weights(model) == stem + 3 * block + hidden + head


@pytest.mark.parametrize("name", MODELS.names())
def test_outputs_have_the_shapes_of_the_contract(name: str) -> None:
    logits, values = build(name)(observations(5))
    assert (logits.shape, values.shape) == ((5, NUM_ACTIONS[name]), (5,))
    assert (logits.dtype, values.dtype) == (torch.float32, torch.float32)


@pytest.mark.parametrize("name", MODELS.names())
def test_rows_of_a_batch_do_not_influence_each_other(name: str) -> None:
    model, batch = build(name), observations(4)
    logits, values = model(batch)
    batch[1:] = 0.0
    alone_logits, alone_values = model(batch)
    torch.testing.assert_close(alone_logits[0], logits[0])
    torch.testing.assert_close(alone_values[0], values[0])
    assert not torch.allclose(alone_values[1], values[1])


@pytest.mark.parametrize("name", MODELS.names())
def test_first_policy_is_close_to_uniform(name: str) -> None:
    logits, _ = build(name)(observations(64))
    assert logits.softmax(dim=1).mul(NUM_ACTIONS[name]).sub(1.0).abs().max() < 0.14


@pytest.mark.parametrize("name", MODELS.names())
def test_same_seed_gives_the_same_bytes_and_another_seed_others(name: str) -> None:
    first, again, other = (WeightBlock(build(name, seed)).read() for seed in (1, 1, 2))
    assert first.tobytes() == again.tobytes()
    assert first.tobytes() != other.tobytes()


@pytest.mark.parametrize("name", MODELS.names())
def test_building_neither_reads_nor_disturbs_torchs_generator(name: str) -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    first = WeightBlock(build(name)).read()
    assert torch.equal(torch.rand(3), expected)
    assert WeightBlock(build(name)).read().tobytes() == first.tobytes()


@pytest.mark.parametrize("name", MODELS.names())
def test_every_weight_learns(name: str) -> None:
    model = build(name)
    logits, values = model(observations(16))
    (logits.square().sum() + values.square().sum()).backward()
    # a residual block's second convolution starts at zero, so that the first learns a step later
    still = [key for key, weight in model.named_parameters() if not weight.grad.abs().sum() > 0]  # type: ignore[union-attr]
    assert all("blocks" in key and "first" in key for key in still)


@pytest.mark.parametrize("shape", [(84,), (6, 7), (1, 2, 6, 7)])
def test_resnet_refuses_what_is_not_planes(shape: tuple[int, ...]) -> None:
    with pytest.raises(ModelError, match=r"'resnet'.*plane.*'mlp'"):
        build("resnet", shape=shape)


@pytest.mark.parametrize("shape", [(84,), (12, 7), (1, 2, 6, 7)])
def test_mlp_takes_observations_of_any_shape(shape: tuple[int, ...]) -> None:
    assert count_weights(build("mlp", shape=shape)) == 89_608


@pytest.mark.parametrize(
    "layer",
    [nn.Dropout(0.1), nn.Dropout2d(0.1), nn.AlphaDropout(), nn.BatchNorm2d(2), nn.SyncBatchNorm(2)],
    ids=lambda layer: type(layer).__name__,
)
def test_layers_that_learn_otherwise_than_they_act_are_refused(layer: nn.Module) -> None:
    class Unlike(OneLayer):
        def layer(self) -> nn.Module:
            return nn.Sequential(nn.Identity(), layer)

    with pytest.raises(ModelError, match=rf"Unlike\.between\.1 .*{type(layer).__name__}"):
        build_own(Unlike)


class DropsByFunction(OneLayer):
    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(nn.functional.dropout(observation, 0.5, training=self.training))


class KeepsRunningStatistics(OneLayer):
    def layer(self) -> nn.Module:
        return nn.InstanceNorm2d(2, track_running_stats=True)


@pytest.mark.parametrize("model", [DropsByFunction, KeepsRunningStatistics])
def test_model_that_learns_otherwise_than_it_acts_is_refused(model: type[Model]) -> None:
    with pytest.raises(ModelError, match=f"{model.__name__} .*mode"):
        build_own(model)


@pytest.mark.parametrize("layer", [nn.LayerNorm(PLANES), nn.GroupNorm(1, 2), nn.ReLU()])
def test_layers_that_compute_alike_are_welcome(layer: nn.Module) -> None:
    class Alike(OneLayer):
        def layer(self) -> nn.Module:
            return layer

    assert build_own(Alike).between is layer


class OneLogitTooMany(OneLayer):
    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        output = self.head(observation.flatten(1))
        return output, output[:, -1]


class ValueAsColumn(OneLayer):
    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        logits, values = super().forward(observation)
        return logits, values[:, None]


class ThreeOutputs(OneLayer):
    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        logits, values = super().forward(observation)
        return logits, values, values  # type: ignore[return-value]


class OneTensor(OneLayer):
    def forward(self, observation: Tensor) -> tuple[Tensor, Tensor]:
        return self.head(observation.flatten(1))  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("model", "gives"),
    [
        (OneLogitTooMany, r"\[\(2, 8\), \(2,\)\]"),
        (ValueAsColumn, r"\[\(2, 7\), \(2, 1\)\]"),
        (ThreeOutputs, r"\[\(2, 7\), \(2,\), \(2,\)\]"),
        (OneTensor, r"\['Tensor'\]"),
    ],
)
def test_wrong_output_shapes_are_refused_with_the_expected_ones(model: type[Model], gives: str) -> None:
    expected = r"\[\(2, 7\), \(2,\)\]"
    with pytest.raises(ModelError, match=rf"{model.__name__} .*{gives} .*{expected}"):
        build_own(model)


def test_own_model_without_settings_is_built() -> None:
    assert OneLayer.Config is ModelConfig
    assert isinstance(build_own(OneLayer), OneLayer)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"name": "mlp", "hidden": []}, "model.hidden=.*at least 1 item"),
        ({"name": "mlp", "hidden": [64, 0]}, "model.hidden.1=0"),
        ({"name": "mlp", "hiden": [64]}, "'model.hiden'.*'hidden'"),
        ({"name": "resnet", "blocks": 0}, "model.blocks=0"),
        ({"name": "resnet", "channels": 2}, "model.channels=2"),
        ({"name": "transformer"}, "'transformer'.*mlp, plane_net, resnet"),
    ],
)
def test_wrong_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        MODELS.configure(settings)


def test_hidden_widths_are_the_layers_widths() -> None:
    model = build_model(Mlp, PLANES, 7, MlpConfig(hidden=(5, 3, 4)), seed=0)
    widths = [tuple(layer.weight.shape) for layer in model.modules() if isinstance(layer, nn.Linear)]
    assert widths == [(5, 84), (3, 5), (4, 3), (8, 4)]


def test_settings_are_fixed() -> None:
    with pytest.raises(ValidationError, match="frozen"):
        MlpConfig().hidden = (1,)  # type: ignore[misc]


@pytest.mark.parametrize("name", MODELS.names())
def test_initial_weights_do_not_depend_on_the_number_of_threads(name: str) -> None:
    blocks = []
    for threads in (1, 2):
        with math_threads(threads):
            blocks.append(WeightBlock(build(name, 5)).read().tobytes())
    assert blocks[0] == blocks[1]
