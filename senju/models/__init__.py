"""Models: the contract and the networks senju brings."""

from senju.models.model import Model, build_model
from senju.registry import Registry

MODELS: Registry[Model] = Registry(
    "model",
    Model,  # type: ignore[type-abstract]  # the registry only asks whether classes derive from it
    {
        "mlp": "senju.models.mlp:Mlp",
        "resnet": "senju.models.resnet:ResNet",
    },
)

__all__ = ["MODELS", "Model", "build_model"]
