"""Losses of several networks at once: each equals the loss computed alone."""

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from senju.algorithms.dqn import DQN, DQNConfig
from senju.algorithms.learner import LearnerSetup
from senju.algorithms.networks import Loss
from senju.algorithms.ppo_loss import Coefficients, LossFunction, Minibatch, compiled_loss, reference_loss
from senju.algorithms.ring_reader import Sample
from senju.algorithms.transitions import in_one_copy, transitions
from senju.errors import ModelError, NoLegalActionError
from senju.models import make_model
from senju.timing import StageClock
from tests.facts import mentions

NUM_NETWORKS, BATCH, NUM_ACTIONS = 3, 7, 70
CPU = torch.device("cpu")


def sample_of(seed: int) -> Sample:
    chance = np.random.default_rng(seed)
    legal, next_legal = (chance.integers(0, 2**63, (BATCH, 2), np.uint64) for _ in range(2))
    next_legal[0] = 0  # a limit ended the game
    seen, after = (chance.integers(0, 255, (BATCH, 3), np.uint8) for _ in range(2))
    actions = chance.integers(0, NUM_ACTIONS, BATCH, np.int32)
    returns, factors, weights = (chance.random(BATCH, np.float32) for _ in range(3))
    return Sample(np.arange(BATCH), seen, legal, actions, returns, after, next_legal, factors, weights)


def network(observation: Tensor) -> tuple[Tensor, Tensor]:
    """Anything that depends on what is seen, and on nothing else."""
    places = torch.arange(NUM_ACTIONS, dtype=torch.float32)
    return torch.sin(observation.sum(-1, keepdim=True) + places), observation[..., 0] / 255


def target(observation: Tensor) -> tuple[Tensor, Tensor]:
    return network(observation + 1.0)


@pytest.mark.parametrize("is_double", [False, True])
@pytest.mark.parametrize("is_dueling", [False, True])
def test_dqn_judges_each_network_by_its_own_sample(is_double: bool, is_dueling: bool) -> None:
    config = DQNConfig(double=is_double, dueling=is_dueling, huber_delta=0.5, prioritised=True)
    model = make_model({"name": "mlp", "hidden": [4]}, (3,), NUM_ACTIONS, seed=0)
    networks: Any = (network, target)
    learner = DQN(model, config, LearnerSetup(seed=0, total_updates=1))

    def loss_of(samples: list[Sample]) -> Loss:
        return learner.compute_loss(networks, transitions(samples, CPU), StageClock())

    samples = [sample_of(seed) for seed in range(NUM_NETWORKS)]
    together, alone = loss_of(samples), [loss_of([sample]) for sample in samples]
    assert torch.allclose(
        together.outputs[0], torch.stack([each.outputs[0] for each in alone]).sum(), atol=1e-6
    )
    for row, own in enumerate(alone):
        assert torch.allclose(together.report[row], own.report[0], atol=1e-6)
        assert together.errors is not None
        assert own.errors is not None
        assert torch.allclose(together.errors[row], own.errors[0], atol=1e-6)


def test_columns_sent_in_one_copy_arrive_as_they_were() -> None:
    samples = [sample_of(seed) for seed in range(NUM_NETWORKS)]
    columns: dict[str, list[Any]] = {
        name: [getattr(sample, name) for sample in samples]
        for name in ("observation", "actions", "returns", "frames")
    }
    sent = in_one_copy(columns, CPU)
    for name, arrays in columns.items():
        assert sent[name].numpy().dtype == arrays[0].dtype
        assert np.array_equal(sent[name].numpy(), np.stack(arrays))


def minibatch_of(seed: int) -> tuple[Tensor, Tensor, Minibatch]:
    chance = torch.Generator().manual_seed(seed)
    legal = torch.randint(0, 2**62, (BATCH, 2), generator=chance) | 1
    legal[:, 1] &= (1 << NUM_ACTIONS - 64) - 1
    numbers = torch.randn(4, BATCH, generator=chance)
    batch = Minibatch(
        torch.zeros(BATCH, 1), legal, torch.zeros(BATCH, dtype=torch.int32), -numbers[0].abs(), *numbers[1:3]
    )
    return torch.randn(BATCH, NUM_ACTIONS, generator=chance), numbers[3], batch


COEFFICIENTS = Coefficients(0.2, 0.7, 0.03)
both = pytest.mark.parametrize("judge", [compiled_loss, reference_loss])


def stacked(problems: list[tuple[Tensor, Tensor, Minibatch]]) -> tuple[Tensor, Tensor, Minibatch]:
    logits, values, batches = zip(*problems, strict=True)
    columns = (torch.stack(column) for column in zip(*batches, strict=True))
    return torch.stack(logits), torch.stack(values), Minibatch(*columns)


def gradients(judge: LossFunction, logits: Tensor, values: Tensor, batch: Minibatch) -> list[Tensor]:
    leaves = logits.requires_grad_(), values.requires_grad_()
    objective = judge(*leaves, batch, COEFFICIENTS)
    objective.backward()
    return [objective.report, *(leaf.grad for leaf in leaves if leaf.grad is not None)]


@both
def test_ppo_computes_the_loss_of_each_network_from_its_own_minibatch(judge: LossFunction) -> None:
    problems = [minibatch_of(seed) for seed in range(NUM_NETWORKS)]
    together = gradients(judge, *stacked(problems))
    for row, problem in enumerate(problems):
        alone = gradients(judge, *problem)
        assert len(together) == len(alone) == 3
        for part, own in zip(together, alone, strict=True):
            assert torch.allclose(part[row], own, atol=1e-6)


@both
def test_decision_of_any_network_without_a_valid_loss_is_refused(judge: LossFunction) -> None:
    problems = [minibatch_of(seed) for seed in range(NUM_NETWORKS)]
    problems[2][0][4] = torch.nan
    with pytest.raises(ModelError, match=mentions("sample 4", "logits", "not finite")):
        judge(*stacked(problems), COEFFICIENTS)
    problems = [minibatch_of(seed) for seed in range(NUM_NETWORKS)]
    problems[1][2].legal[3] = 0
    with pytest.raises(NoLegalActionError):
        judge(*stacked(problems), COEFFICIENTS)
