"""PPO's objective, twice: in PyTorch, as a reference and for any device; and compiled, for the CPU.

The compiled one computes the loss and its gradient with respect to logits and values in one pass
over the legal actions, so that its cost grows with the number of legal moves, not of all actions.
Tests compare the two.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from senju.algorithms.masked_categorical import MaskedCategorical, unpack_legal_bits
from senju.algorithms.networks import Loss
from senju.errors import ModelError, NoLegalActionError
from senju.kernels import ONE, WORD_BITS, ZERO, compiled, is_allowed, log_normaliser, trailing_zeros

_NOT_FINITE = "PPO's loss is not finite: a reward or a value is not, or training has diverged"


class Minibatch(NamedTuple):
    """Decisions to learn from, as tensors on one device; for a stack, the first axis is the network."""

    observation: Tensor  # bytes [..., sample, *observation_shape]
    legal: Tensor  # int64 bits [..., sample, words]
    actions: Tensor  # int32 [..., sample]
    log_probs: Tensor  # [..., sample], of the policy that acted
    advantages: Tensor  # [..., sample]
    returns: Tensor  # [..., sample]


class WeightedMinibatch(NamedTuple):
    """A minibatch that was filled up to a fixed size; its means are weighted."""

    observation: Tensor
    legal: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    returns: Tensor
    weights: Tensor  # [..., sample]: 1, and 0 where a decision only fills the batch


AnyMinibatch = Minibatch | WeightedMinibatch


class Coefficients(NamedTuple):
    """The numbers in the objective."""

    clip_range: float
    value: float
    entropy: float


class LossReport(NamedTuple):
    """Means over a minibatch."""

    policy_loss: float
    value_loss: float
    entropy: float
    approximate_kl: float
    clip_fraction: float
    largest_ratio_error: float  # max |ratio - 1|


LossFunction = Callable[[Tensor, Tensor, Minibatch, Coefficients], Loss]


def ppo_loss(
    logits: Tensor, values: Tensor, batch: AnyMinibatch, coefficients: Coefficients, is_checked: bool = True
) -> tuple[Tensor, Tensor]:
    """The loss [...] to minimise, and the six numbers of a LossReport [..., number] as one tensor.

    Schulman 2017, eq. 7 and 9, with the squared error of the value halved. With `is_checked` a sample without
    legal actions raises an error, for which the host waits; else its numbers are not finite.
    """
    policy = MaskedCategorical(logits, unpack_legal_bits(batch.legal, logits.shape[-1]), is_checked)
    weights = batch.weights if isinstance(batch, WeightedMinibatch) else None
    log_ratio = policy.log_prob(batch.actions) - batch.log_probs
    ratio = log_ratio.exp()
    low, high = 1.0 - coefficients.clip_range, 1.0 + coefficients.clip_range
    clipped = ratio.clamp(low, high)
    policy_loss = -_mean(torch.minimum(ratio * batch.advantages, clipped * batch.advantages), weights)
    value_loss = 0.5 * _mean((values.float() - batch.returns).square(), weights)
    entropy = _mean(policy.entropy(), weights)
    loss = policy_loss + coefficients.value * value_loss - coefficients.entropy * entropy
    with torch.no_grad():
        numbers = torch.stack(
            [
                policy_loss,
                value_loss,
                entropy,
                _mean(ratio - 1.0 - log_ratio, weights),  # never negative, little variance (Schulman 2020)
                _mean(((ratio < low) | (ratio > high)).float(), weights),
                (ratio - 1.0).abs().amax(-1),
            ],
            -1,
        )
    return loss, numbers


def _mean(numbers: Tensor, weights: Tensor | None) -> Tensor:
    """The mean over samples [...]."""
    if weights is None:
        return numbers.mean(-1)
    return (numbers * weights).sum(-1) / weights.sum(-1)


@compiled
def _loss_and_gradient(
    logits: NDArray[np.float32],  # [sample, actions]
    values: NDArray[np.float32],
    legal: NDArray[np.uint64],  # [sample, words]
    actions: NDArray[np.int32],
    old_log_probs: NDArray[np.float32],
    advantages: NDArray[np.float32],
    returns: NDArray[np.float32],
    clip_range: float,
    value_coefficient: float,
    entropy_coefficient: float,
    logits_gradient: NDArray[np.float32],  # zero where illegal, on entry
    values_gradient: NDArray[np.float32],
    report: NDArray[np.float64],
) -> int:
    """Fill the gradients and the report; return the first sample without a finite loss, or -1."""
    num_samples = logits.shape[0]
    share = 1.0 / num_samples
    for sample in range(num_samples):
        scores, allowed, action = logits[sample], legal[sample], actions[sample]
        normaliser = log_normaliser(scores, allowed)
        if not np.isfinite(normaliser) or not is_allowed(allowed, action):
            return sample
        # rounded as it was when acting, so that an unchanged policy has a ratio of exactly 1
        log_ratio = np.float64(np.float32(scores[action] - normaliser) - old_log_probs[sample])
        # all in float64 from here: a product rounded to float32 would differ from the clipped one
        # even inside the clip, and the sample would lose its gradient
        ratio, advantage = math.exp(log_ratio), np.float64(advantages[sample])
        clipped = min(max(ratio, 1.0 - clip_range), 1.0 + clip_range)
        is_active = ratio * advantage <= clipped * advantage
        policy_slope = -ratio * advantage * share if is_active else 0.0

        entropy = 0.0
        for index in range(allowed.shape[0]):
            bits = allowed[index]
            while bits != ZERO:
                other = index * WORD_BITS + int(trailing_zeros(bits))
                log_prob = scores[other] - normaliser
                prob = math.exp(log_prob)
                if prob > 0.0:
                    entropy -= prob * log_prob
                logits_gradient[sample, other] = prob  # kept here until it becomes the gradient
                bits &= bits - ONE
        for index in range(allowed.shape[0]):
            bits = allowed[index]
            while bits != ZERO:
                other = index * WORD_BITS + int(trailing_zeros(bits))
                prob = np.float64(logits_gradient[sample, other])
                gradient = policy_slope * ((1.0 if other == action else 0.0) - prob)
                if prob > 0.0:
                    log_prob = scores[other] - normaliser
                    gradient += entropy_coefficient * share * prob * (log_prob + entropy)
                logits_gradient[sample, other] = gradient
                bits &= bits - ONE

        error = values[sample] - returns[sample]
        values_gradient[sample] = value_coefficient * error * share
        report[0] -= min(ratio * advantage, clipped * advantage) * share
        report[1] += 0.5 * error * error * share
        report[2] += entropy * share
        report[3] += (ratio - 1.0 - log_ratio) * share
        report[4] += share if abs(ratio - 1.0) > clip_range else 0.0
        report[5] = max(report[5], abs(ratio - 1.0))
    return -1


def compiled_loss(logits: Tensor, values: Tensor, batch: Minibatch, coefficients: Coefficients) -> Loss:
    """The loss's gradient with respect to float32 `logits` and `values`, on the CPU."""
    logits_gradient, values_gradient = torch.zeros(logits.shape), torch.empty(values.shape)
    report = torch.zeros(*values.shape[:-1], len(LossReport._fields), dtype=torch.float64)
    for network in np.ndindex(values.shape[:-1]):  # once, without an axis for networks
        own = Minibatch(*(column[network] for column in batch))
        refused = _loss_and_gradient(
            logits.detach()[network].contiguous().numpy(),
            values.detach()[network].contiguous().numpy(),
            own.legal.numpy().view(np.uint64),
            own.actions.numpy(),
            own.log_probs.numpy(),
            own.advantages.numpy(),
            own.returns.numpy(),
            *coefficients,
            logits_gradient[network].numpy(),
            values_gradient[network].numpy(),
            report[network].numpy(),
        )
        if refused >= 0:
            _explain_refusal(refused, logits[network], own)
        if not bool(report[network].isfinite().all()):
            raise ModelError(_NOT_FINITE)
    return Loss((logits, values), (logits_gradient, values_gradient), report)


def _explain_refusal(sample: int, logits: Tensor, batch: Minibatch) -> NoReturn:
    legal = unpack_legal_bits(batch.legal[sample], logits.shape[-1])
    action = int(batch.actions[sample])
    if not bool(legal.any()):
        raise NoLegalActionError(f"sample {sample}: the legal mask is empty")
    if not bool(legal[action]):
        raise ModelError(f"sample {sample}: action {action} is not legal in its own mask")
    raise ModelError(f"sample {sample}: the policy's logits are not finite; training has diverged")


def explain_loss(logits: Tensor, batch: AnyMinibatch) -> NoReturn:
    """Raise the error that says why a loss [sample] was not finite; the logits may be newer than the loss.

    What the data alone explains comes first: later weights are not finite either.
    """
    own = Minibatch(*batch[: len(Minibatch._fields)])
    is_legal = unpack_legal_bits(own.legal, logits.shape[-1])
    is_chosen_legal = is_legal.gather(-1, own.actions.long().unsqueeze(-1)).squeeze(-1)
    is_finite = logits.masked_fill(~is_legal, 0.0).isfinite().all(-1)
    for is_right in (is_legal.any(-1), is_chosen_legal, is_finite):
        if not bool(is_right.all()):
            _explain_refusal(int((~is_right).nonzero()[0, 0]), logits, own)
    raise ModelError(_NOT_FINITE)


def reference_loss(logits: Tensor, values: Tensor, batch: Minibatch, coefficients: Coefficients) -> Loss:
    """The same loss for PyTorch's autograd, on any device."""
    loss, numbers = ppo_loss(logits, values, batch, coefficients)
    if bool(numbers.isfinite().all()):
        return Loss((loss.sum(),), None, numbers)
    policy = MaskedCategorical(logits.detach(), unpack_legal_bits(batch.legal, logits.shape[-1]))
    refused = (~policy.log_prob(batch.actions).isfinite()).nonzero()
    if len(refused):
        *network, sample = refused[0].tolist()
        index = tuple(network)
        _explain_refusal(sample, logits[index], Minibatch(*(column[index] for column in batch)))
    raise ModelError(_NOT_FINITE)
