"""Models: the contract (model.py) and the built-in networks."""

from senju.config import Settings
from senju.models.model import Model, build_model
from senju.registry import Registry

MODELS: Registry[Model] = Registry(
    "model",
    Model,  # type: ignore[type-abstract]  # the registry only asks whether classes derive from it
    {
        "mlp": "senju.models.mlp:Mlp",
        "plane_net": "senju.models.plane_net:PlaneNet",
        "resnet": "senju.models.resnet:ResNet",
    },
)


def make_model(settings: Settings, observation_shape: tuple[int, ...], num_actions: int, seed: int) -> Model:
    """Make the network that the settings name, with initial weights drawn from the seed."""
    cls, config = MODELS.get(settings["name"]), MODELS.configure(settings)
    return build_model(cls, observation_shape, num_actions, config, seed)


__all__ = ["MODELS", "Model", "build_model", "make_model"]
