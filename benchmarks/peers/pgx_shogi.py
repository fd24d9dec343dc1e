"""Pgx's Shogi on the CPU, a call for every step of all rows.

Each call returns the whole state: 119 planes as booleans, the legal mask, rewards, terminated. The
legal action is drawn with one random number per row. Many steps in one call, which serves Pgx in
small games, are left out: a step takes milliseconds, beside which the call itself is little. Pgx
ends a game by mate or after 512 plies; it does not look for repetition or the entering king.

    echo '{"batch": 64, "seconds": 1}' | .venvs/peers/bin/python benchmarks/peers/pgx_shogi.py
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import pgx
from meter import Loop, serve
from pgx.experimental import auto_reset

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1

Carry = tuple[Any, pgx.State, jax.Array]  # random key, states, games ended so far

_env = pgx.make("shogi")
_init_all = jax.vmap(_env.init)
_step_all = jax.vmap(auto_reset(_env.step, _env.init))


def _choose_at_random(key: Any, legal: jax.Array) -> jax.Array:
    """Any legal action, equally likely."""
    rank = jnp.cumsum(legal, axis=1)  # [row, action]
    num_legal = rank[:, -1]
    wanted = (jax.random.uniform(key, num_legal.shape) * num_legal).astype(jnp.int32)
    # the product may round up to num_legal itself
    wanted = jnp.minimum(wanted, num_legal - 1)
    return jnp.argmax(rank > wanted[:, None], axis=1)


def _one_step(carry: Carry) -> Carry:
    key, state, games = carry
    key, choice_key, step_key = jax.random.split(key, 3)
    actions = _choose_at_random(choice_key, state.legal_action_mask)
    state = _step_all(state, actions, jax.random.split(step_key, actions.shape[0]))
    return key, state, games + state.terminated.sum()


def make_loop(batch: int) -> Loop:
    """A turn is one step of every row."""
    call = jax.jit(_one_step, donate_argnums=0)  # donated: the states are overwritten in place
    key, init_key = jax.random.split(jax.random.PRNGKey(SEED))
    state = jax.jit(_init_all)(jax.random.split(init_key, batch))
    carry: Carry = (key, state, jnp.int32(0))

    def play(num_turns: int) -> int:
        nonlocal carry
        carry = (carry[0], carry[1], jnp.int32(0))
        for _ in range(num_turns):
            carry = call(carry)
        carry[1].observation.block_until_ready()
        return int(carry[2])

    return Loop(play, batch)


if __name__ == "__main__":
    serve(make_loop, ["pgx", "jax", "jaxlib"])
