"""PPO's objective: by hand, compiled against PyTorch, and both against a float64 one in NumPy."""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.algorithms.masked_categorical import unpack_legal_bits
from senju.algorithms.ppo_loss import (
    Coefficients,
    LossFunction,
    LossReport,
    Minibatch,
    compiled_loss,
    ppo_loss,
    reference_loss,
)
from senju.errors import ModelError, NoLegalActionError
from senju.kernels import pack_legal
from tests.facts import mentions

both = pytest.mark.parametrize("judge", [compiled_loss, reference_loss])

COEFFICIENTS = Coefficients(clip_range=0.2, value=0.7, entropy=0.03)


class Problem(NamedTuple):
    """Everything the objective is computed from."""

    logits: Tensor
    values: Tensor
    batch: Minibatch


class Result(NamedTuple):
    """What a backward pass reports and sends into the graph."""

    report: LossReport
    logits_gradient: NDArray[np.float32]
    values_gradient: NDArray[np.float32]


def run(judge: LossFunction, problem: Problem, coefficients: Coefficients = COEFFICIENTS) -> Result:
    logits, values = problem.logits.clone().requires_grad_(), problem.values.clone().requires_grad_()
    objective = judge(logits, values, problem.batch, coefficients)
    objective.backward()
    report = LossReport(*objective.report.tolist())
    assert logits.grad is not None
    assert values.grad is not None
    return Result(report, logits.grad.numpy(), values.grad.numpy())


def problem_of(
    logits: NDArray[np.float64],
    allowed: NDArray[np.bool_],
    actions: NDArray[np.int64],
    log_ratios: NDArray[np.float64],
    rng: np.random.Generator,
    advantages: NDArray[np.float64] | None = None,
) -> Problem:
    """A batch whose acting policy was `log_ratios` less likely to take the actions than `logits` are."""
    scores = torch.from_numpy(logits.astype(np.float32))
    masked = scores.double().masked_fill(~torch.from_numpy(allowed), -math.inf)
    log_probs = masked.log_softmax(-1).gather(-1, torch.from_numpy(actions)[:, None])[:, 0].numpy()
    num_samples = len(logits)
    advantages = rng.normal(size=num_samples) if advantages is None else advantages
    batch = Minibatch(
        observation=torch.zeros(num_samples, 1, dtype=torch.uint8),
        legal=torch.from_numpy(pack_legal(allowed).view(np.int64)),
        actions=torch.from_numpy(actions.astype(np.int32)),
        log_probs=torch.from_numpy((log_probs - log_ratios).astype(np.float32)),
        advantages=torch.from_numpy(advantages.astype(np.float32)),
        returns=torch.from_numpy(rng.normal(size=num_samples).astype(np.float32)),
    )
    return Problem(scores, torch.from_numpy(rng.normal(size=num_samples).astype(np.float32)), batch)


def random_problem(num_actions: int, scale: float = 2.0, num_samples: int = 60, seed: int = 0) -> Problem:
    """Masks from one legal action to all, ratios on both sides of the clip, advantages of both signs."""
    rng = np.random.default_rng([seed, num_actions])
    allowed = rng.random((num_samples, num_actions)) < np.linspace(0.0, 1.0, num_samples)[:, None]
    actions = rng.integers(0, num_actions, num_samples)
    allowed[np.arange(num_samples), actions] = True
    logits = rng.normal(0.0, scale, (num_samples, num_actions))
    return problem_of(logits, allowed, actions, rng.normal(0.0, 0.3, num_samples), rng)


def exact(problem: Problem, coefficients: Coefficients) -> tuple[float, list[float]]:
    """The loss and the report in float64, sample by sample, from Schulman 2017, eq. 7 and 9."""
    logits, values, batch = problem
    legal = unpack_legal_bits(batch.legal, logits.shape[-1]).numpy()
    terms = []
    for i in range(len(legal)):
        allowed = np.flatnonzero(legal[i])
        scores = logits[i].double().numpy()[allowed]
        probs = np.exp(scores - scores.max())
        probs /= probs.sum()
        log_probs = np.log(np.maximum(probs, 1e-300))
        chosen = int(np.flatnonzero(allowed == int(batch.actions[i]))[0])
        log_ratio = log_probs[chosen] - float(batch.log_probs[i])
        ratio, advantage = math.exp(log_ratio), float(batch.advantages[i])
        clipped = min(max(ratio, 1 - coefficients.clip_range), 1 + coefficients.clip_range)
        terms.append(
            [
                -min(ratio * advantage, clipped * advantage),
                0.5 * (float(values[i]) - float(batch.returns[i])) ** 2,
                -float((probs * log_probs).sum()),
                ratio - 1 - log_ratio,
                float(ratio != clipped),
                abs(ratio - 1),
            ]
        )
    means = np.mean(terms, axis=0)
    report = [*means[:5], float(np.max(terms, axis=0)[5])]
    loss = means[0] + coefficients.value * means[1] - coefficients.entropy * means[2]
    return float(loss), report


LN_2 = math.log(2.0)


@both
@pytest.mark.parametrize(
    ("old_prob", "advantage", "policy_loss", "slope"),
    [
        # the policy gives 1/2 to each of two actions; d ratio / d logit = ratio · (1 − 1/2)
        # ratio 0.5 / 0.5 = 1: −min(2, 2) = −2, slope −2 · 1 · 0.5 = −1
        (0.5, 2.0, -2.0, -1.0),
        # ratio 0.5 / 0.4 = 1.25, a good action taken more often already: −min(2.5, 1.2 · 2) = −2.4, flat
        (0.4, 2.0, -2.4, 0.0),
        # the same ratio, a bad action: −min(−2.5, −2.4) = 2.5, slope 2 · 1.25 · 0.5 = 1.25
        (0.4, -2.0, 2.5, 1.25),
        # ratio 0.5 / 0.8 = 0.625, a good action: −min(1.25, 0.8 · 2) = −1.25, slope −2 · 0.625 · 0.5 = −0.625
        (0.8, 2.0, -1.25, -0.625),
        # the same ratio, a bad action taken less often already: −min(−1.25, −1.6) = 1.6, flat
        (0.8, -2.0, 1.6, 0.0),
        # ratio 0.5 / 0.45 = 1.1111, inside the clip: −2.2222, slope −2 · 1.1111 · 0.5
        (0.45, 2.0, -2.0 / 0.9, -1.0 / 0.9),
        (0.45, -2.0, 2.0 / 0.9, 1.0 / 0.9),
    ],
)
def test_clipped_objective_by_hand(
    judge: LossFunction, old_prob: float, advantage: float, policy_loss: float, slope: float
) -> None:
    batch = Minibatch(
        observation=torch.zeros(1, 1, dtype=torch.uint8),
        legal=torch.tensor([[0b101]]),
        actions=torch.tensor([2], dtype=torch.int32),
        log_probs=torch.tensor([math.log(old_prob)]),
        advantages=torch.tensor([advantage]),
        returns=torch.tensor([1.0]),
    )
    problem = Problem(torch.tensor([[3.0, 99.0, 3.0]]), torch.tensor([0.5]), batch)
    result = run(judge, problem, Coefficients(clip_range=0.2, value=2.0, entropy=0.0))
    ratio = 0.5 / old_prob
    report = result.report
    assert report.policy_loss == pytest.approx(policy_loss, rel=1e-6)
    assert report.value_loss == pytest.approx(0.125, rel=1e-6)  # (0.5 − 1)² / 2
    assert report.entropy == pytest.approx(LN_2, rel=1e-6)
    assert report.approximate_kl == pytest.approx(ratio - 1 - math.log(ratio), abs=1e-6)
    assert report.clip_fraction == (1.0 if abs(ratio - 1) > 0.2 else 0.0)
    assert report.largest_ratio_error == pytest.approx(abs(ratio - 1), abs=1e-6)
    np.testing.assert_allclose(result.logits_gradient, [[-slope, 0.0, slope]], rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(result.values_gradient, [2.0 * (0.5 - 1.0)], rtol=1e-6)


@both
def test_entropy_gradient_by_hand(judge: LossFunction) -> None:
    """Two actions of probability 3/4 and 1/4, no advantage: only the entropy pulls.

    H = −¾ ln ¾ − ¼ ln ¼ = 0.562335; d(−H)/d logit₀ = ¾ (ln ¾ + H) = 0.205990, and minus that for the other.
    """
    batch = Minibatch(
        observation=torch.zeros(1, 1, dtype=torch.uint8),
        legal=torch.tensor([[0b11]]),
        actions=torch.tensor([0], dtype=torch.int32),
        log_probs=torch.tensor([math.log(0.75)]),
        advantages=torch.tensor([0.0]),
        returns=torch.tensor([0.0]),
    )
    problem = Problem(torch.tensor([[math.log(3.0), 0.0]]), torch.tensor([0.0]), batch)
    result = run(judge, problem, Coefficients(clip_range=0.2, value=1.0, entropy=1.0))
    assert result.report.entropy == pytest.approx(0.562335, abs=1e-6)
    np.testing.assert_allclose(result.logits_gradient, [[0.205990, -0.205990]], atol=1e-6)


def quadrants(problem: Problem) -> set[tuple[str, bool]]:
    """Which sides of the clip, and which signs of the advantage there, a problem covers."""
    logits, _, batch = problem
    policy_terms = []
    for i in range(len(logits)):
        one = Problem(logits[[i]], problem.values[[i]], Minibatch(*(column[[i]] for column in batch)))
        _, report = exact(one, COEFFICIENTS)
        sign = float(batch.advantages[i]) > 0
        if report[4] == 0:
            policy_terms.append(("inside", sign))
        else:
            raised = -report[0] / float(batch.advantages[i]) > 1  # the ratio, or the clip beside it
            policy_terms.append(("above" if raised else "below", sign))
    return set(policy_terms)


@pytest.mark.parametrize("num_actions", [2, 7, 70, 2187])
@pytest.mark.parametrize("scale", [0.01, 2.0, 8.0])
def test_compiled_equals_the_reference(num_actions: int, scale: float) -> None:
    problem = random_problem(num_actions, scale)
    assert len(quadrants(problem)) == 6, "both signs inside, above and below the clip"
    compiled, reference = run(compiled_loss, problem), run(reference_loss, problem)
    np.testing.assert_allclose(compiled.report, reference.report, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(compiled.logits_gradient, reference.logits_gradient, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(compiled.values_gradient, reference.values_gradient, rtol=1e-6, atol=1e-8)


@both
def test_every_sample_inside_the_clip_keeps_its_gradient(judge: LossFunction) -> None:
    """min(ratio · A, clip(ratio) · A) has two equal sides there; rounding must not choose the flat one."""
    rng = np.random.default_rng(4)
    num_samples = 1000
    logits, allowed = rng.normal(size=(num_samples, 2)), np.ones((num_samples, 2), np.bool_)
    actions, log_ratios = rng.integers(0, 2, num_samples), rng.uniform(-0.2, 0.18, num_samples)
    problem = problem_of(logits, allowed, actions, log_ratios, rng)
    result = run(judge, problem, Coefficients(clip_range=0.2, value=1.0, entropy=0.0))
    assert result.report.clip_fraction == 0.0
    slopes = result.logits_gradient[np.arange(num_samples), actions]
    np.testing.assert_array_equal(np.sign(slopes), -np.sign(problem.batch.advantages.numpy()))


@both
@pytest.mark.parametrize("num_actions", [2, 7, 70, 2187])
def test_report_agrees_with_float64(judge: LossFunction, num_actions: int) -> None:
    problem = random_problem(num_actions, seed=1)
    _, expected = exact(problem, COEFFICIENTS)
    np.testing.assert_allclose(run(judge, problem).report, expected, rtol=3e-6, atol=1e-6)


@both
def test_gradients_agree_with_finite_differences(judge: LossFunction) -> None:
    problem = random_problem(num_actions=4, num_samples=6)
    result = run(judge, problem)
    step = 1e-4  # the float64 objective's own error in a difference is then about 1e-9

    def slope(nudged: Callable[[float], Problem]) -> float:
        return (exact(nudged(step), COEFFICIENTS)[0] - exact(nudged(-step), COEFFICIENTS)[0]) / (2 * step)

    logits, values = problem.logits.double(), problem.values.double()
    for i, a in np.ndindex(*logits.shape):
        at = torch.zeros_like(logits)
        at[i, a] = 1.0
        expected = slope(lambda h, at=at: problem._replace(logits=logits + h * at))
        assert result.logits_gradient[i, a] == pytest.approx(expected, abs=1e-6), (i, a)
    for i in range(len(values)):
        at = torch.zeros_like(values)
        at[i] = 1.0
        expected = slope(lambda h, at=at: problem._replace(values=values + h * at))
        assert result.values_gradient[i] == pytest.approx(expected, abs=1e-6), i


@both
@pytest.mark.parametrize("num_actions", [2, 70, 2187])
def test_single_legal_action_has_nothing_to_learn(judge: LossFunction, num_actions: int) -> None:
    rng = np.random.default_rng(2)
    actions = rng.integers(0, num_actions, 5)
    allowed = np.eye(num_actions, dtype=np.bool_)[actions]
    logits = rng.normal(0.0, 30.0, (5, num_actions))
    result = run(judge, problem_of(logits, allowed, actions, np.zeros(5), rng))
    assert result.report.entropy == 0.0
    assert result.report.largest_ratio_error == 0.0
    assert not result.logits_gradient.any()


@pytest.mark.parametrize("num_actions", [2, 7, 70])
def test_saturated_policies_stay_finite_and_equal(num_actions: int) -> None:
    """One action all but certain, and the action taken now likely, now hopeless."""
    rng = np.random.default_rng(3)
    num_samples = 40
    logits = np.full((num_samples, num_actions), -60.0)
    logits[:, 0] = 60.0
    actions = rng.integers(0, num_actions, num_samples)
    log_ratios = rng.normal(0.0, 0.3, num_samples)
    problem = problem_of(logits, np.ones(logits.shape, np.bool_), actions, log_ratios, rng)
    compiled, reference = run(compiled_loss, problem), run(reference_loss, problem)
    for result in (compiled, reference):
        assert np.isfinite(result.report).all()
        assert np.isfinite(result.logits_gradient).all()
        assert result.logits_gradient.any()
    np.testing.assert_allclose(compiled.report, reference.report, rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(compiled.logits_gradient, reference.logits_gradient, rtol=1e-4, atol=1e-6)


@both
def test_illegal_logits_get_no_gradient_whatever_they_are(judge: LossFunction) -> None:
    problem = random_problem(70)
    illegal = ~unpack_legal_bits(problem.batch.legal, 70)
    expected = run(judge, problem)
    for rubbish in (1e30, math.inf, -math.inf, math.nan):
        altered = run(judge, problem._replace(logits=problem.logits.masked_fill(illegal, rubbish)))
        assert altered.report == expected.report
        assert altered.logits_gradient.tobytes() == expected.logits_gradient.tobytes()
        assert not altered.logits_gradient[illegal.numpy()].any()


@both
def test_gradient_reaches_the_network_through_views(judge: LossFunction) -> None:
    """Logits and values are slices of one output, neither of which lies together in memory."""
    problem = random_problem(7)
    expected = run(judge, problem)
    output = torch.cat([problem.logits, problem.values[:, None]], dim=1).requires_grad_()
    objective = judge(output[:, :-1], output[:, -1], problem.batch, COEFFICIENTS)
    objective.backward()
    report = LossReport(*objective.report.tolist())
    assert report == expected.report
    assert output.grad is not None
    np.testing.assert_array_equal(output.grad[:, :-1], expected.logits_gradient)
    np.testing.assert_array_equal(output.grad[:, -1], expected.values_gradient)


def test_reported_loss_adds_up_to_the_one_minimised() -> None:
    problem = random_problem(7)
    loss, numbers = ppo_loss(*problem, COEFFICIENTS)
    report = LossReport(*numbers.tolist())
    total = report.policy_loss + 0.7 * report.value_loss - 0.03 * report.entropy
    assert loss.item() == pytest.approx(total, abs=1e-6)
    assert loss.item() == pytest.approx(exact(problem, COEFFICIENTS)[0], abs=1e-6)


@both
def test_nan_logits_are_refused(judge: LossFunction) -> None:
    problem = random_problem(70)
    problem.logits[4, int(problem.batch.actions[4])] = math.nan
    with pytest.raises(ModelError, match=mentions("sample 4", "logits", "not finite", "diverged")):
        run(judge, problem)


@both
def test_empty_mask_is_refused(judge: LossFunction) -> None:
    problem = random_problem(70)
    problem.batch.legal[9] = 0
    with pytest.raises(NoLegalActionError, match=r"sample 9\b.*mask|rows \[9\]"):
        run(judge, problem)


@both
@pytest.mark.parametrize("illegal_logit", [0.0, -math.inf])
def test_action_that_is_illegal_in_its_own_mask_is_refused(judge: LossFunction, illegal_logit: float) -> None:
    problem = random_problem(70)
    action = int((~unpack_legal_bits(problem.batch.legal[5], 70)).nonzero()[0])
    problem.batch.actions[5] = action
    problem.logits[5, action] = illegal_logit
    with pytest.raises(ModelError, match=mentions("sample 5", f"action {action}", "not legal")):
        run(judge, problem)


@both
@pytest.mark.parametrize("column", ["advantages", "returns"])
def test_loss_that_is_not_finite_is_refused(judge: LossFunction, column: str) -> None:
    problem = random_problem(7)
    getattr(problem.batch, column)[2] = math.nan
    with pytest.raises(ModelError, match=mentions("PPO's loss", "not finite")):
        run(judge, problem)


@both
def test_action_that_has_become_impossible_is_refused(judge: LossFunction) -> None:
    """A legal action of logit −∞ has no ratio to learn from."""
    problem = random_problem(7, num_samples=20)
    row = int(unpack_legal_bits(problem.batch.legal, 7).sum(-1).argmax())
    problem.logits[row, int(problem.batch.actions[row])] = -math.inf
    with pytest.raises(ModelError, match="not finite"):
        run(judge, problem)


@both
def test_impossible_legal_action_beside_the_one_taken_does_no_harm(judge: LossFunction) -> None:
    """As if it were illegal: a logit of −∞ is what a mask amounts to."""
    rng = np.random.default_rng(5)
    logits, actions = rng.normal(size=(4, 3)), np.zeros(4, np.int64)
    logits[:, 2] = -math.inf
    legal = np.ones((4, 3), np.bool_)
    illegal = legal & (np.arange(3) < 2)
    results = [
        run(judge, problem_of(logits, allowed, actions, np.full(4, 0.1), np.random.default_rng(6)))
        for allowed in (legal, illegal)
    ]
    np.testing.assert_allclose(results[0].report, results[1].report, rtol=1e-6)
    np.testing.assert_allclose(results[0].logits_gradient, results[1].logits_gradient, atol=1e-8)
