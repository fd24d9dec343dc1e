"""The losses that a GPU computes: equal to the CPU's, compiled without a break, for every model."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from senju.algorithms import dqn, ppo
from senju.algorithms.captured_step import _many_variants
from senju.algorithms.dqn import DQN, DQNConfig
from senju.algorithms.learner import LearnerSetup
from senju.algorithms.masked_categorical import unpack_legal_bits
from senju.algorithms.networks import AdamRows, Loss, StackedAdam, StackedNetwork, adam_step
from senju.algorithms.ppo import PPO, PPOConfig
from senju.algorithms.ppo_loss import (
    Coefficients,
    Minibatch,
    WeightedMinibatch,
    compiled_loss,
    explain_loss,
    ppo_loss,
    reference_loss,
)
from senju.algorithms.transitions import Transitions
from senju.errors import ModelError, NoLegalActionError
from senju.models import make_model
from senju.models.stacked import ModelStack
from senju.timing import StageClock
from tests.algorithms.device_learners import MLP, PLANE_NET, RESNET
from tests.facts import mentions

SHAPE, NUM_ACTIONS, SIZE = (4, 3, 3), 9 * 14, 24
COEFFICIENTS = Coefficients(0.2, 0.7, 0.03)
models = pytest.mark.parametrize("model", [MLP, RESNET, PLANE_NET], ids=["mlp", "resnet", "plane_net"])
ALGORITHMS: dict[str, Any] = {
    "ppo": (PPO, PPOConfig()),
    "ppo in bfloat16": (PPO, PPOConfig(precision="bfloat16")),
    "dqn": (DQN, DQNConfig(prioritised=True)),
    "single dqn": (DQN, DQNConfig(double=False, dueling=False)),
}
algorithms = pytest.mark.parametrize(("algorithm", "config"), ALGORITHMS.values(), ids=ALGORITHMS)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> Iterator[None]:
    torch._dynamo.reset()
    with _many_variants():
        yield
    torch._dynamo.reset()


def minibatch(*sizes: int, seed: int = 0) -> Minibatch:
    """Decisions with about half of the actions legal, the first among them."""
    chance = torch.Generator().manual_seed(seed)
    legal = torch.randint(-(2**63), 2**63 - 1, (*sizes, 2), generator=chance) | 1
    legal[..., 1] &= (1 << NUM_ACTIONS - 64) - 1
    observation = torch.randint(0, 3, (*sizes, *SHAPE), generator=chance, dtype=torch.uint8)
    numbers = torch.randn(3, *sizes, generator=chance)
    actions = torch.zeros(sizes, dtype=torch.int32)
    return Minibatch(observation, legal, actions, -4.0 - 0.1 * numbers[0].abs(), numbers[1], numbers[2])


def transitions(*sizes: int) -> Transitions:
    one, other = minibatch(*sizes), minibatch(*sizes, seed=1)
    other.legal[..., 3, :] = 0  # a limit ended the game
    weights = 0.5 + torch.rand(sizes, generator=torch.Generator().manual_seed(2))
    return Transitions(
        one.observation,
        one.legal,
        one.actions,
        one.returns,
        other.observation,
        other.legal,
        torch.full(sizes, 0.9),
        weights,
    )


def new_learner(algorithm: Any, config: Any, model: dict[str, Any], seed: int = 1) -> Any:
    return algorithm(make_model(model, SHAPE, NUM_ACTIONS, seed), config, LearnerSetup(0, 10))


def batch_of(algorithm: Any, *sizes: int) -> Any:
    return minibatch(*sizes) if algorithm is PPO else transitions(*sizes)


def gradient(learner: Any, loss: Loss) -> Tensor:
    learner.optimizer.zero_grad()
    loss.backward()
    return torch.cat([p.grad.reshape(-1) for p in learner.model.parameters() if p.grad is not None])


@models
@algorithms
def test_loss_of_a_gpu_equals_that_of_the_cpu(algorithm: Any, config: Any, model: dict[str, Any]) -> None:
    learner, batch = new_learner(algorithm, config, model), batch_of(algorithm, SIZE)
    expected = learner.compute_loss(learner.networks, batch, StageClock())
    objective, settings = learner.objective
    found = objective(learner.networks, batch, settings)
    assert torch.allclose(found.report.double(), expected.report.double(), atol=1e-5)
    assert torch.allclose(gradient(learner, found), gradient(learner, expected), atol=1e-5, rtol=1e-3)
    if expected.errors is not None:
        assert torch.equal(found.errors, expected.errors)


@models
@algorithms
@pytest.mark.parametrize("num_networks", [1, 3])
def test_loss_is_compiled_without_a_break(
    algorithm: Any, config: Any, model: dict[str, Any], num_networks: int
) -> None:
    """`fullgraph` refuses a break; on the CPU without generating code."""
    learners = [new_learner(algorithm, config, model, seed) for seed in range(num_networks)]
    networks, batch = learners[0].networks, batch_of(algorithm, SIZE)
    if num_networks > 1:
        networks, batch = stacked(learners), batch_of(algorithm, num_networks, SIZE)
        for network in networks:
            network.prepare()
    objective, settings = learners[0].objective
    compiled = torch.compile(objective, fullgraph=True, dynamic=False, backend="eager")
    found, expected = compiled(networks, batch, settings), objective(networks, batch, settings)
    assert torch.allclose(found.report, expected.report, atol=1e-6)
    networks[0].backward(found)


def stacked(learners: Any) -> list[StackedNetwork]:
    stacks = [
        ModelStack([network.model for network in networks])
        for networks in zip(*(each.networks for each in learners), strict=True)
    ]
    adam = StackedAdam(stacks[0], [each.optimizer for each in learners])
    return [StackedNetwork(stack, range(len(learners)), adam) for stack in stacks]


@pytest.mark.parametrize(("algorithm", "config"), [ALGORITHMS["ppo"], ALGORITHMS["dqn"]], ids=["ppo", "dqn"])
def test_learners_of_one_form_share_what_is_compiled(algorithm: Any, config: Any) -> None:
    graphs: list[Any] = []

    def note(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    learners = [new_learner(algorithm, config, MLP, seed) for seed in range(10)]
    compiled = torch.compile(learners[0].objective[0], fullgraph=True, dynamic=False, backend=note)
    batch = batch_of(algorithm, SIZE)
    for learner in learners:
        objective, settings = learner.objective
        found, expected = (each(learner.networks, batch, settings) for each in (compiled, objective))
        assert torch.allclose(found.report, expected.report, atol=1e-6)
    assert len(graphs) == 1


@models
@pytest.mark.parametrize(("algorithm", "config"), [ALGORITHMS["ppo"], ALGORITHMS["dqn"]], ids=["ppo", "dqn"])
def test_stack_is_compiled_once_for_all_its_steps(algorithm: Any, config: Any, model: dict[str, Any]) -> None:
    graphs: list[Any] = []

    def note(graph: Any, _: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    learners = [new_learner(algorithm, config, model, seed) for seed in range(3)]
    stacks = [network._stack for network in stacked(learners)]
    adam = stacked(learners)[0]._adam
    objective, settings = learners[0].objective
    compiled = torch.compile(objective, fullgraph=True, dynamic=False, backend=note)
    for _ in range(3):  # each step has networks of its own
        networks = [StackedNetwork(stack, [0, 2], adam) for stack in stacks]
        for network in networks:
            network.prepare()
        compiled(networks, batch_of(algorithm, 2, SIZE), settings)
    assert len(graphs) == 1


@pytest.mark.slow
@models
def test_generated_code_computes_the_same_gradient(model: dict[str, Any]) -> None:
    learner, batch = new_learner(PPO, PPOConfig(), model), minibatch(SIZE)
    objective, settings = learner.objective
    compiled = torch.compile(objective, fullgraph=True, dynamic=False)
    found, expected = (each(learner.networks, batch, settings) for each in (compiled, objective))
    assert torch.allclose(found.report, expected.report, atol=1e-5)
    assert torch.allclose(gradient(learner, found), gradient(learner, expected), atol=1e-5, rtol=1e-3)


def test_losses_without_checks_equal_the_reference() -> None:
    batch = minibatch(SIZE)
    logits = torch.randn(SIZE, NUM_ACTIONS, generator=torch.Generator().manual_seed(5)).requires_grad_()
    values = torch.randn(SIZE, generator=torch.Generator().manual_seed(6)).requires_grad_()
    results = []
    for judge in (compiled_loss, reference_loss, unchecked):
        logits.grad = values.grad = None
        loss = judge(logits, values, batch, COEFFICIENTS)
        loss.backward()
        assert logits.grad is not None
        assert values.grad is not None
        results.append((loss.report.double(), logits.grad.clone(), values.grad.clone()))
    for others in results[1:]:
        assert all(torch.allclose(a, b, atol=1e-5) for a, b in zip(results[0], others, strict=True))


def unchecked(logits: Tensor, values: Tensor, batch: Any, coefficients: Coefficients) -> Loss:
    loss, numbers = ppo_loss(logits, values, batch, coefficients, is_checked=False)
    return Loss((loss.sum(),), None, numbers)


def test_gradient_is_finite_where_illegal_logits_are_infinite() -> None:
    batch = minibatch(SIZE)
    is_legal = unpack_legal_bits(batch.legal, NUM_ACTIONS)
    logits = torch.zeros(SIZE, NUM_ACTIONS).masked_fill(~is_legal, torch.inf).requires_grad_()
    values = torch.zeros(SIZE, requires_grad=True)
    unchecked(logits, values, batch, COEFFICIENTS).backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()
    assert not logits.grad[~is_legal].any()


@pytest.mark.parametrize("num_added", [1, 7])
def test_added_decisions_of_weight_0_change_nothing(num_added: int) -> None:
    learner, batch = new_learner(PPO, PPOConfig(), MLP), minibatch(SIZE)
    extra = minibatch(num_added, seed=9)
    columns = [torch.cat(pair) for pair in zip(batch, extra, strict=True)]
    weights = torch.cat([torch.ones(SIZE), torch.zeros(num_added)])
    objective, settings = learner.objective
    plain, filled = (
        objective(learner.networks, each, settings) for each in (batch, WeightedMinibatch(*columns, weights))
    )
    assert torch.allclose(plain.report, filled.report, atol=1e-6)
    assert torch.allclose(gradient(learner, plain), gradient(learner, filled), atol=1e-6, rtol=1e-4)


def test_first_ratio_is_1() -> None:
    """Where the same network acted: with every log-probability from its own logits."""
    learner, batch = new_learner(PPO, PPOConfig(), PLANE_NET), minibatch(SIZE)
    objective, settings = learner.objective
    with torch.no_grad():
        logits, _ = learner.model(batch.observation.float())
        scores = logits.masked_fill(~unpack_legal_bits(batch.legal, NUM_ACTIONS), -torch.inf)
        own = batch._replace(log_probs=scores.log_softmax(-1)[:, 0])
    report = objective(learner.networks, own, settings).report.tolist()
    assert report[ppo.LossReport._fields.index("largest_ratio_error")] < 1e-6


@pytest.mark.parametrize("wrong", ["legal", "action", "logits", "returns"])
def test_loss_that_is_not_finite_is_explained(wrong: str) -> None:
    batch, logits = minibatch(SIZE), torch.zeros(SIZE, NUM_ACTIONS)
    expected: tuple[str, ...] = ("not finite",)
    if wrong == "legal":
        batch.legal[5] = 0
        expected = ("sample 5", "legal mask is empty")
    elif wrong == "action":
        batch.legal[7] &= ~1
        expected = ("sample 7", "action 0", "not legal")
    elif wrong == "logits":
        logits[9, 0] = torch.nan
        expected = ("sample 9", "logits", "not finite")
    else:
        batch.returns[0] = torch.inf
    report = unchecked(logits, torch.zeros(SIZE), batch, COEFFICIENTS).report
    assert not report.isfinite().all()
    with pytest.raises((ModelError, NoLegalActionError), match=mentions(*expected)):
        explain_loss(logits, batch)


def test_words_are_unpacked_alike_where_they_are_compiled() -> None:
    words = minibatch(3, SIZE).legal
    compiled = torch.compile(unpack_legal_bits, fullgraph=True, backend="eager")
    for num_actions in (3, 64, 65, NUM_ACTIONS):
        found = compiled(words, num_actions)
        assert found.dtype == torch.bool
        assert torch.equal(found, unpack_legal_bits(words, num_actions))


def test_adam_of_a_stack_takes_torchs_steps() -> None:
    """Rows with rates of their own, some of them resting."""
    chance = torch.Generator().manual_seed(0)
    weights = torch.randn(3, 20, generator=chance)
    alone = [torch.nn.Parameter(row.clone()) for row in weights]
    rates = torch.tensor([[0.1], [0.01], [0.02]])
    adams = [
        torch.optim.Adam([p], lr=float(rate), eps=1e-5, fused=True)
        for p, rate in zip(alone, rates, strict=True)
    ]
    rows = AdamRows(weights, torch.zeros(3, 20), torch.zeros(3, 20), torch.zeros(3, 1))
    for _ in range(20):
        slope = torch.randn(3, 20, generator=chance)
        adam_step(rows, slope, rates, (0.9, 0.999), 1e-5)
        for parameter, adam, own in zip(alone, adams, slope, strict=True):
            parameter.grad = own.clone()
            adam.step()
    expected = np.stack([parameter.detach().numpy() for parameter in alone])
    np.testing.assert_allclose(weights.numpy(), expected, atol=1e-5)


def test_modules_name_the_loss_that_is_compiled() -> None:
    """A function of a module: methods and closures would be compiled for each learner."""
    for module, algorithm, config in ((ppo, *ALGORITHMS["ppo"]), (dqn, *ALGORITHMS["dqn"])):
        assert new_learner(algorithm, config, MLP).objective[0] is module.device_loss
