"""The masked categorical against float64 NumPy over the legal actions alone."""

import math

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.algorithms.masked_categorical import MaskedCategorical, unpack_legal_bits
from senju.errors import NoLegalActionError
from senju.kernels import pack_legal, unpack_legal

SIZES = [2, 7, 2187, 14_000]


def random_rows(num_actions: int, dtype: torch.dtype, scale: float = 3.0) -> tuple[Tensor, Tensor]:
    """Logits and masks: from one legal action to all of them."""
    rng = np.random.default_rng(num_actions)
    num_rows = 12
    logits = torch.from_numpy(rng.normal(0.0, scale, (num_rows, num_actions))).to(dtype)
    legal = rng.random((num_rows, num_actions)) < np.linspace(0.0, 1.0, num_rows)[:, None]
    legal[np.arange(num_rows), rng.integers(0, num_actions, num_rows)] = True
    return logits, torch.from_numpy(legal)


def exact(logits: Tensor, legal: Tensor) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Log-probabilities (minus infinity where illegal) and entropies, in float64, row by row."""
    scores = logits.double().numpy()
    log_probs, entropies = np.full(scores.shape, -np.inf), np.zeros(len(scores))
    for row, allowed in enumerate(legal.numpy()):
        those = scores[row, allowed]
        shifted = those - those.max()
        log_probs[row, allowed] = shifted - math.log(np.exp(shifted).sum())
        probs = np.exp(log_probs[row, allowed])
        entropies[row] = -(probs[probs > 0] * log_probs[row, allowed][probs > 0]).sum()
    return log_probs, entropies


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("num_actions", SIZES)
def test_agrees_with_float64(num_actions: int, dtype: torch.dtype) -> None:
    logits, legal = random_rows(num_actions, dtype)
    policy = MaskedCategorical(logits, legal)
    log_probs, entropies = exact(logits, legal)
    np.testing.assert_allclose(policy.log_probs, log_probs, rtol=1e-6, atol=4e-6)
    np.testing.assert_allclose(policy.log_probs.exp(), np.exp(log_probs), rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(policy.log_probs.exp().sum(-1), 1.0, atol=1e-5)
    np.testing.assert_allclose(policy.entropy(), entropies, rtol=1e-5, atol=1e-6)
    actions = legal.float().argmax(-1)
    np.testing.assert_array_equal(
        policy.log_prob(actions.int()), policy.log_probs[torch.arange(len(actions)), actions]
    )


@pytest.mark.parametrize("num_actions", SIZES)
def test_large_logits_lose_nothing(num_actions: int) -> None:
    """Logits of ±1e4, whose differences are what counts, and which overflow an exponential."""
    logits, legal = random_rows(num_actions, torch.float32)
    for offset in (1e4, -1e4):
        large = logits + offset
        policy = MaskedCategorical(large, legal)
        log_probs, entropies = exact(large, legal)
        np.testing.assert_allclose(policy.log_probs, log_probs, rtol=1e-6, atol=4e-6)
        np.testing.assert_allclose(policy.entropy(), entropies, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("num_actions", SIZES)
def test_saturated_policy_has_entropy_zero_and_finite_gradients(num_actions: int) -> None:
    logits = torch.full((1, num_actions), -1e4)
    logits[0, 1] = 1e4
    logits.requires_grad_()
    policy = MaskedCategorical(logits, torch.ones(1, num_actions, dtype=torch.bool))
    assert policy.log_probs.exp()[0, :2].tolist() == [0.0, 1.0]
    assert policy.log_probs[0, :2].tolist() == [-2e4, 0.0]
    assert policy.entropy().item() == 0.0
    (policy.entropy() + policy.log_prob(torch.tensor([1]))).sum().backward()
    assert logits.grad is not None
    assert not logits.grad.any()


@pytest.mark.parametrize("illegal_logit", [0.0, 1e4, math.inf, -math.inf, math.nan])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_illegal_logits_touch_neither_the_result_nor_its_gradient(
    dtype: torch.dtype, illegal_logit: float
) -> None:
    """0 · (−∞) is NaN, and hides in entropies and in the gradients of masked sums."""
    logits, legal = random_rows(70, dtype)
    reference = MaskedCategorical(logits, legal)
    altered = logits.masked_fill(~legal, illegal_logit).requires_grad_()
    policy = MaskedCategorical(altered, legal)
    assert torch.equal(policy.log_probs, reference.log_probs)
    assert torch.equal(policy.entropy(), reference.entropy())
    assert not policy.log_probs.exp()[~legal].any()
    (policy.entropy().sum() + policy.log_prob(legal.float().argmax(-1)).sum()).backward()
    assert altered.grad is not None
    assert altered.grad.isfinite().all()
    assert not altered.grad[~legal].any()
    assert altered.grad[legal].any()


def test_gradients_are_the_textbooks() -> None:
    """d log p(a) / d logits = onehot(a) − p, and d H / d logits = −p (log p + H)."""
    logits, legal = random_rows(7, torch.float32)
    actions = legal.float().argmax(-1)
    log_probs, entropies = exact(logits, legal)
    probs = np.exp(log_probs)

    logits.requires_grad_()
    (gradient,) = torch.autograd.grad(MaskedCategorical(logits, legal).log_prob(actions).sum(), logits)
    np.testing.assert_allclose(gradient, np.eye(7)[actions] - probs, atol=1e-6)
    (gradient,) = torch.autograd.grad(MaskedCategorical(logits, legal).entropy().sum(), logits)
    expected = np.where(legal, -probs * (np.where(legal, log_probs, 0.0) + entropies[:, None]), 0.0)
    np.testing.assert_allclose(gradient, expected, atol=1e-6)


def test_legal_action_of_probability_zero_leaves_entropy_and_gradient_finite() -> None:
    logits = torch.tensor([[0.0, 0.0, -math.inf]], requires_grad=True)
    policy = MaskedCategorical(logits, torch.ones(1, 3, dtype=torch.bool))
    assert policy.entropy().item() == pytest.approx(math.log(2), rel=1e-6)
    policy.entropy().sum().backward()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


@pytest.mark.parametrize("num_actions", SIZES)
@pytest.mark.parametrize("logit", [0.0, 1e4, -1e4])
def test_single_legal_action_is_certain_and_has_no_entropy(num_actions: int, logit: float) -> None:
    logits = torch.linspace(-1e4, 1e4, num_actions).repeat(1, 1)
    logits[0, 1] = logit
    legal = torch.zeros(1, num_actions, dtype=torch.bool)
    legal[0, 1] = True
    policy = MaskedCategorical(logits, legal)
    assert policy.log_prob(torch.tensor([1])).item() == 0.0
    assert policy.entropy().item() == 0.0
    assert policy.log_prob(torch.tensor([0])).item() == -math.inf


def test_entropy_of_even_odds_is_the_logarithm_of_their_number() -> None:
    policy = MaskedCategorical(torch.zeros(1, 14_000), torch.ones(1, 14_000, dtype=torch.bool))
    assert policy.entropy().item() == pytest.approx(math.log(14_000), rel=1e-5)


def test_nan_among_the_legal_logits_is_not_hidden() -> None:
    policy = MaskedCategorical(torch.tensor([[0.0, math.nan]]), torch.ones(1, 2, dtype=torch.bool))
    assert policy.entropy().isnan().all()


def test_rows_without_a_legal_action_are_named() -> None:
    legal = torch.ones(30, 4, dtype=torch.bool)
    legal[[3, 7]] = False
    with pytest.raises(NoLegalActionError, match=r"rows \[3, 7\]$"):
        MaskedCategorical(torch.zeros(30, 4), legal)
    with pytest.raises(NoLegalActionError, match=r"rows \[0, 1, 2, 3, 4, 5, 6, 7, 8, 9\] …$"):
        MaskedCategorical(torch.zeros(30, 4), torch.zeros(30, 4, dtype=torch.bool))


@pytest.mark.parametrize("num_actions", [1, 2, 7, 63, 64, 65, 2187, 14_000])
def test_unpacked_bits_are_those_that_the_games_packed(num_actions: int) -> None:
    allowed = np.random.default_rng(num_actions).random((3, 2, num_actions)) < 0.5
    words = pack_legal(allowed)
    bits = unpack_legal_bits(torch.from_numpy(words.view(np.int64)), num_actions)
    np.testing.assert_array_equal(bits, allowed)
    np.testing.assert_array_equal(bits, unpack_legal(words, num_actions))


def test_unpacking_takes_words_that_do_not_lie_together_in_memory() -> None:
    allowed = np.random.default_rng(0).random((6, 100)) < 0.5
    words = torch.from_numpy(pack_legal(allowed).view(np.int64))
    np.testing.assert_array_equal(unpack_legal_bits(words.t().contiguous().t(), 100), allowed)
