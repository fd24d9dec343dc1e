"""How a policy turns logits into actions: sampling, and picking the best."""

import math

import numpy as np
from numpy.typing import NDArray

from senju.errors import ModelError, NoLegalActionError
from senju.kernels import (
    ONE,
    WORD_BITS,
    ZERO,
    compiled,
    log_normaliser,
    random_word,
    trailing_zeros,
    unit_interval,
    unpack_legal,
)


@compiled
def _sample(
    logits: NDArray[np.float32],  # [row * acting, actions]
    legal: NDArray[np.uint64],  # [row, acting, words]
    seats: NDArray[np.int8],
    clock: NDArray[np.void],
    seed: np.uint64,
    stream: int,
    actions: NDArray[np.int32],
    log_probs: NDArray[np.float32],
) -> int:
    """Sample by inverting the cumulative distribution; return the first row that cannot be, or -1."""
    num_places = seats.shape[1]
    for row in range(seats.shape[0]):
        for place in range(num_places):
            actions[row, place], log_probs[row, place] = 0, 0.0
            if seats[row, place] < 0:
                continue
            allowed, scores = legal[row, place], logits[row * num_places + place]
            normaliser = log_normaliser(scores, allowed)
            if not np.isfinite(normaliser):
                return row
            word = random_word(
                seed, clock[row]["row"], clock[row]["game"], clock[row]["step"], stream + (place << 8)
            )
            target, cumulative, chosen = unit_interval(word), 0.0, -1
            for index in range(allowed.shape[0]):
                bits = allowed[index]
                while bits != ZERO and cumulative <= target:
                    action = index * WORD_BITS + int(trailing_zeros(bits))
                    probability = math.exp(scores[action] - normaliser)
                    if probability > 0.0:  # rounding may leave the sum just below the target
                        chosen = action
                    cumulative += probability
                    bits &= bits - ONE
            actions[row, place] = chosen
            log_probs[row, place] = scores[chosen] - normaliser
    return -1


@compiled
def _best(
    logits: NDArray[np.float32],
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
    actions: NDArray[np.int32],
) -> int:
    num_places = seats.shape[1]
    for row in range(seats.shape[0]):
        for place in range(num_places):
            actions[row, place] = 0
            if seats[row, place] < 0:
                continue
            allowed, scores = legal[row, place], logits[row * num_places + place]
            best = -1
            for index in range(allowed.shape[0]):
                bits = allowed[index]
                while bits != ZERO:
                    action = index * WORD_BITS + int(trailing_zeros(bits))
                    if np.isnan(scores[action]):
                        return row
                    if best < 0 or scores[action] > scores[best]:
                        best = action
                    bits &= bits - ONE
            if best < 0:
                return row
            actions[row, place] = best
    return -1


def sample_actions(
    logits: NDArray[np.float32],
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
    clock: NDArray[np.void],
    seed: np.uint64,
    stream: int,
    actions: NDArray[np.int32],
    log_probs: NDArray[np.float32],
) -> None:
    """Write an action drawn from each row's policy and its log-probability.

    The draw depends on (seed, row id, game number, step, stream) alone.
    """
    _refuse(_sample(logits, legal, seats, clock, seed, stream, actions, log_probs), logits, legal, seats)


def best_actions(
    logits: NDArray[np.float32],
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
    actions: NDArray[np.int32],
) -> None:
    """Write the legal action with the largest logit; the lowest index among equals."""
    _refuse(_best(logits, legal, seats, actions), logits, legal, seats)


def _refuse(
    row: int, logits: NDArray[np.float32], legal: NDArray[np.uint64], seats: NDArray[np.int8]
) -> None:
    if row < 0:
        return
    num_places, num_actions = seats.shape[1], logits.shape[1]
    for place in np.flatnonzero(seats[row] >= 0).tolist():
        where = f"row {row}, seat {seats[row, place]}"
        allowed = np.flatnonzero(unpack_legal(legal[row, place], num_actions))
        if not len(allowed):
            raise NoLegalActionError(f"{where}: the legal mask is empty")
        scores = logits[row * num_places + place, allowed]
        is_wrong = ~(scores < np.inf) | (scores == -np.inf).all()
        if is_wrong.any():
            raise ModelError(
                f"{where}: the policy's logits are not finite ({scores[is_wrong][0]} for action "
                f"{allowed[is_wrong][0]}); training has diverged or the weights are damaged"
            )
    raise AssertionError(f"row {row} was refused without a reason")
