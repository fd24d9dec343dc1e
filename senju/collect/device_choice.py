"""Choosing actions on a device, with the random numbers that the kernels of `exploration` draw on a CPU.

Everything is written with torch operations over whole batches, so that it can be compiled and captured
together with the network. Probabilities are added as whole numbers: sums of whole numbers do not depend on
the order of addition, so a parallel sum is repeatable and never decreases from one action to the next.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from senju.collect.exploration import EXPLORING

_WORD = 64  # bits
_LOW32, _LOW53 = 0xFFFFFFFF, (1 << 53) - 1
_MULTIPLIERS, _WEYL = (0xD2511F53, 0xCD9E8D57), (0x9E3779B9, 0xBB67AE85)  # of Philox, as in `senju.kernels`
_ONE = float(1 << 40)  # a probability of 1, relative to the likeliest action; 2**13 of them fit into int64


class Decisions(NamedTuple):
    """What the choice of a batch depends on besides the network; a position is one seat that may act."""

    legal: Tensor  # int64 bits [position, words]
    is_acting: Tensor  # bool [position]
    clock: Tensor  # int64 [position, 3]: row, game, step
    streams: Tensor  # int64 [position]
    keys: Tensor  # int64 [2]: the seed's halves
    epsilons: Tensor  # float64 [position]


class Choice(NamedTuple):
    """The result of a choice. Where no valid choice was possible, the action is -1."""

    actions: Tensor  # int32 [position]
    log_probs: Tensor  # float32 [position]; 0 for action values
    values: Tensor  # float32 [position]: of the position, or of the best action
    explored: Tensor  # bool [position]


def random_words(keys: Tensor, clock: Tensor, streams: Tensor) -> tuple[Tensor, Tensor]:
    """The lower and the upper 32 bits of `senju.kernels.random_word` for each position, as int64.

    Products of 32-bit numbers overflow int64, but their bits are right; the masks remove the sign.
    """
    a, b, c = clock.unbind(-1)
    d = streams & _LOW32
    key_0, key_1 = keys.unbind(-1)
    for number in range(10):
        product_0, product_1 = a * _MULTIPLIERS[0], c * _MULTIPLIERS[1]
        round_0, round_1 = (
            (key + number * weyl) & _LOW32 for key, weyl in zip((key_0, key_1), _WEYL, strict=True)
        )
        a, b, c, d = (
            ((product_1 >> 32) & _LOW32) ^ b ^ round_0,
            product_1 & _LOW32,
            ((product_0 >> 32) & _LOW32) ^ d ^ round_1,
            product_0 & _LOW32,
        )
    return a, b


def unit_intervals(words: tuple[Tensor, Tensor]) -> Tensor:
    """Float64 numbers in [0, 1) from the upper 53 bits of random words."""
    low, high = words
    return (((high << 32) | low) >> 11 & _LOW53).double() * 2.0**-53


def unpacked(legal: Tensor, num_actions: int) -> Tensor:
    """Legal bits [position, words] as booleans [position, action]."""
    return _bits(legal).flatten(-2)[..., :num_actions]


def sampled(logits: Tensor, values: Tensor, decisions: Decisions) -> Choice:
    """Sample from the policy by inverting the cumulative distribution over the legal actions."""
    scores = _by_word(torch.where(unpacked(decisions.legal, logits.shape[-1]), logits.float(), -torch.inf))
    largest = scores.amax((-2, -1))
    is_valid = (largest < torch.inf) & (largest > -torch.inf)
    sums = _shares(scores, largest[:, None, None]).sum(-1)
    total = sums.sum(-1)
    chance = unit_intervals(random_words(decisions.keys, decisions.clock, decisions.streams))
    word, target = _first_beyond(sums, (chance * total.double()).long())
    own = _shares(_of_word(scores, word), largest[:, None])
    bit, _ = _first_beyond(own, target)
    chosen = word * _WORD + bit
    normaliser = largest.double() + (total.double() / _ONE).log()
    log_probs = (_at(scores.flatten(-2), chosen).double() - normaliser).float()
    return _finished(decisions, is_valid, chosen, log_probs, values.float(), torch.zeros_like(is_valid))


def epsilon_greedy(logits: Tensor, values: Tensor, decisions: Decisions, is_dueling: bool) -> Choice:
    """The action of the largest value, or with probability epsilon a random legal one."""
    bits = _bits(decisions.legal)
    is_legal = bits.flatten(-2)[..., : logits.shape[-1]]
    scores = torch.where(is_legal, logits.float(), -torch.inf)
    is_finite = torch.where(is_legal, logits.float().isfinite(), True).all(-1)
    counts = bits.long().sum(-1)  # of each word
    count, best = counts.sum(-1), scores.argmax(-1)
    best_values = _at(scores, best).double()
    if is_dueling:
        mean = torch.where(is_legal, logits.double(), 0.0).sum(-1) / count
        best_values = best_values + values.double() - mean
    words = random_words(decisions.keys, decisions.clock, decisions.streams)
    explored = (unit_intervals(words) < decisions.epsilons) & (decisions.epsilons > 0.0)
    _, high = random_words(decisions.keys, decisions.clock, decisions.streams + EXPLORING)
    word, target = _first_beyond(counts, (high * count) >> 32)
    bit, _ = _first_beyond(_bits(_at(decisions.legal, word)).long(), target)
    chosen = torch.where(explored, word * _WORD + bit, best)
    none = torch.zeros_like(best_values, dtype=torch.float32)
    return _finished(decisions, is_finite & (count > 0), chosen, none, best_values.float(), explored)


def _bits(legal: Tensor) -> Tensor:
    """The bits of words as booleans, along a new last axis."""
    return ((legal.unsqueeze(-1) >> torch.arange(_WORD, device=legal.device)) & 1).bool()


def _by_word(scores: Tensor) -> Tensor:
    """Scores [position, action] as [position, word, bit]; minus infinity beyond the last action."""
    missing = -scores.shape[-1] % _WORD
    padded = torch.nn.functional.pad(scores, (0, missing), value=-torch.inf)
    return padded.view(len(scores), -1, _WORD)


def _shares(scores: Tensor, largest: Tensor) -> Tensor:
    """Probabilities as whole numbers, relative to the likeliest action; 0 for illegal actions."""
    return ((scores - largest).exp() * _ONE).long()


def _of_word(scores: Tensor, word: Tensor) -> Tensor:
    """The scores [position, bit] of one word of each position."""
    index = word[:, None, None].expand(-1, 1, _WORD)
    return scores.gather(1, index).squeeze(1)


def _at(numbers: Tensor, index: Tensor) -> Tensor:
    """One number of each position."""
    return numbers.gather(-1, index.unsqueeze(-1)).squeeze(-1)


def _first_beyond(numbers: Tensor, target: Tensor) -> tuple[Tensor, Tensor]:
    """The first index at which the sum of [position, index] exceeds `target`, and what is left of the target.

    A target that is too large for rounding finds the last number above 0. The sums are written as products
    with a triangle: torch cannot compile long cumulative sums.
    """
    indices = torch.arange(numbers.shape[-1], device=numbers.device)
    is_up_to = indices[:, None] >= indices  # [index, summand]
    sums = torch.where(is_up_to, numbers.unsqueeze(-2), 0).sum(-1)
    target = torch.minimum(target, numbers.sum(-1) - 1)
    is_passed = sums <= target.unsqueeze(-1)
    passed = torch.where(is_passed, numbers, 0).sum(-1)
    return is_passed.long().sum(-1).clamp(max=numbers.shape[-1] - 1), target - passed


def _finished(
    decisions: Decisions,
    is_valid: Tensor,
    chosen: Tensor,
    log_probs: Tensor,
    values: Tensor,
    explored: Tensor,
) -> Choice:
    """Zeros where no seat acts, and -1 where a seat acts and there is no valid choice."""
    is_acting = decisions.is_acting
    actions = torch.where(is_acting, torch.where(is_valid, chosen, -1), 0)
    return Choice(
        actions.int(),
        torch.where(is_acting & is_valid, log_probs, 0.0),
        values,
        explored & is_acting & is_valid,
    )
