"""How a policy turns logits into actions: sampled, greedy or epsilon-greedy.

Random numbers depend on (seed, row id, game number, step, stream) alone.
"""

import math
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from senju.errors import ModelError, NoLegalActionError
from senju.kernels import (
    ONE,
    WORD_BITS,
    ZERO,
    below,
    compiled,
    count_allowed,
    inlined,
    log_normaliser,
    nth_allowed,
    random_word,
    trailing_zeros,
    unit_interval,
    unpack_legal,
)


@compiled
def sample_rows(
    logits: NDArray[np.float32],  # [row * acting, actions]
    legal: NDArray[np.uint64],  # [row, acting, words]
    seats: NDArray[np.int8],
    clock: NDArray[np.void],
    seed: np.uint64,
    stream: int,
    actions: NDArray[np.int32],
    log_probs: NDArray[np.float32],
) -> int:
    """Sample by inverting the cumulative distribution; return the first row without a valid one, or -1."""
    num_acting = seats.shape[1]
    for row in range(seats.shape[0]):
        for acting_index in range(num_acting):
            actions[row, acting_index], log_probs[row, acting_index] = 0, 0.0
            if seats[row, acting_index] < 0:
                continue
            allowed, scores = legal[row, acting_index], logits[row * num_acting + acting_index]
            normaliser = log_normaliser(scores, allowed)
            if not np.isfinite(normaliser):
                return row
            word = random_word(
                seed, clock[row]["row"], clock[row]["game"], clock[row]["step"], stream + (acting_index << 8)
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
            actions[row, acting_index] = chosen
            log_probs[row, acting_index] = scores[chosen] - normaliser
    return -1


@inlined
def _best_allowed(
    scores: NDArray[np.float32], allowed: NDArray[np.uint64], may_be_infinite: bool
) -> tuple[int, float]:
    """The first action with the largest score, or -1 if there is none; and the sum of all scores."""
    best, total = -1, 0.0
    for index in range(allowed.shape[0]):
        bits = allowed[index]
        while bits != ZERO:
            action = index * WORD_BITS + int(trailing_zeros(bits))
            if np.isnan(scores[action]) or not (may_be_infinite or np.isfinite(scores[action])):
                return -1, 0.0
            total += scores[action]
            if best < 0 or scores[action] > scores[best]:
                best = action
            bits &= bits - ONE
    return best, total


@compiled
def _best(
    logits: NDArray[np.float32],
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
    actions: NDArray[np.int32],
) -> int:
    num_acting = seats.shape[1]
    for row in range(seats.shape[0]):
        for acting_index in range(num_acting):
            actions[row, acting_index] = 0
            if seats[row, acting_index] < 0:
                continue
            best, _ = _best_allowed(logits[row * num_acting + acting_index], legal[row, acting_index], True)
            if best < 0:
                return row
            actions[row, acting_index] = best
    return -1


@compiled
def explore_rows(
    logits: NDArray[np.float32],  # [row * acting, actions]
    values: NDArray[np.float32],  # [row * acting]
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
    clock: NDArray[np.void],
    seed: np.uint64,
    stream: int,
    epsilon: float,
    is_dueling: bool,
    actions: NDArray[np.int32],
    explored: NDArray[np.bool_],  # [row, acting]
    best_values: NDArray[np.float32],  # [row, acting]
) -> int:
    """Draw whether to explore, then an action; return the first row without a valid one, or -1."""
    num_acting = seats.shape[1]
    for row in range(seats.shape[0]):
        for acting_index in range(num_acting):
            actions[row, acting_index], best_values[row, acting_index] = 0, 0.0
            explored[row, acting_index] = False
            if seats[row, acting_index] < 0:
                continue
            allowed, scores = legal[row, acting_index], logits[row * num_acting + acting_index]
            best, total = _best_allowed(scores, allowed, False)
            if best < 0:
                return row
            count = count_allowed(allowed)
            value = np.float64(scores[best])
            if is_dueling:
                value += values[row * num_acting + acting_index] - total / count
            best_values[row, acting_index] = value
            actions[row, acting_index] = best
            if epsilon > 0.0:
                own_stream = stream + (acting_index << 8)
                game, step = clock[row]["game"], clock[row]["step"]
                word = random_word(seed, clock[row]["row"], game, step, own_stream)
                if unit_interval(word) < epsilon:
                    other = random_word(seed, clock[row]["row"], game, step, own_stream + EXPLORING)
                    actions[row, acting_index] = nth_allowed(allowed, below(other, count))
                    explored[row, acting_index] = True
    return -1


EXPLORING = 1 << 16  # added to a stream: a second number for the same decision


class Acting(NamedTuple):
    """How a network's outputs become actions.

    By `policy` they are sampled, by `action_values` they are epsilon-greedy. The logits of dueling networks
    are advantages: an action's value is the position's value plus the advantage, minus the mean advantage of
    the legal actions (Wang 2016). With a `ladder`, each of `rungs` shards has its own epsilon: the published
    one to the power of 1 for the first shard, up to 1 + `ladder` for the last (Horgan 2018).
    """

    by: Literal["policy", "action_values"] = "policy"
    is_dueling: bool = False
    ladder: float = 0.0
    rungs: int = 1

    def epsilon(self, published: float, shard: int) -> float:
        """The share of random moves in one shard.

        >>> ladder = Acting("action_values", ladder=7.0, rungs=3)
        >>> [round(ladder.epsilon(0.4, shard), 5) for shard in range(3)]
        [0.4, 0.01619, 0.00066]
        """
        if not self.ladder or self.rungs < 2 or published <= 0.0:
            return published
        return float(published ** (1.0 + self.ladder * shard / (self.rungs - 1)))


BY_POLICY = Acting()


def epsilon_greedy_actions(
    logits: NDArray[np.float32],
    values: NDArray[np.float32],
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
    clock: NDArray[np.void],
    seed: np.uint64,
    stream: int,
    epsilon: float,
    is_dueling: bool,
    actions: NDArray[np.int32],
    explored: NDArray[np.bool_],
    best_values: NDArray[np.float32],
) -> None:
    """Write the action, random with probability `epsilon`; whether it explored; the best action's value."""
    row = explore_rows(
        logits, values, legal, seats, clock, seed, stream, epsilon, is_dueling, actions, explored, best_values
    )
    refuse_choice(row, logits, legal, seats, all_must_be_finite=True)


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
    """Write an action drawn from each row's policy and its log-probability."""
    refuse_choice(
        sample_rows(logits, legal, seats, clock, seed, stream, actions, log_probs), logits, legal, seats
    )


def best_actions(
    logits: NDArray[np.float32],
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
    actions: NDArray[np.int32],
) -> None:
    """Write the legal action with the largest logit; the lowest index among equals."""
    refuse_choice(_best(logits, legal, seats, actions), logits, legal, seats)


def refuse_choice(
    row: int,
    logits: NDArray[np.float32],
    legal: NDArray[np.uint64],
    seats: NDArray[np.int8],
    all_must_be_finite: bool = False,  # True for action values; a policy may have logits of minus infinity
    first_row: int = 0,  # the index of the arrays' first row in its shard
) -> None:
    """Raise the error that explains why no action could be chosen in a row; nothing for -1."""
    if row < 0:
        return
    num_acting, num_actions = seats.shape[1], logits.shape[1]
    for acting_index in np.flatnonzero(seats[row] >= 0).tolist():
        where = f"row {first_row + row}, seat {seats[row, acting_index]}"
        allowed = np.flatnonzero(unpack_legal(legal[row, acting_index], num_actions))
        if not len(allowed):
            raise NoLegalActionError(f"{where}: the legal mask is empty")
        scores = logits[row * num_acting + acting_index, allowed]
        is_wrong = ~(scores < np.inf) | (scores == -np.inf).all()
        if all_must_be_finite:
            is_wrong = ~np.isfinite(scores)
        if is_wrong.any():
            raise ModelError(
                f"{where}: the network's logits are not finite ({scores[is_wrong][0]} for action "
                f"{allowed[is_wrong][0]}); training has diverged or the weights are damaged"
            )
    raise ModelError(
        f"row {first_row + row}: no action could be chosen, and now the logits are finite: the network gives "
        "different outputs for the same input"
    )
