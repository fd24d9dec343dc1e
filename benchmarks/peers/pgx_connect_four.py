"""Pgx's Connect Four on the CPU, in two forms: a call for every step, or many steps in one call.

A call for every step is what a policy outside JAX needs, and what senju's own loop does. Many
steps in one call (`lax.scan`) is Pgx at its best: only a policy inside the same program can use
it. Both return the whole state: observation, legal mask, rewards, terminated. The legal action is
drawn with one random number per row, which is faster than Pgx's own `act_randomly`.

    echo '{"batch": 64, "seconds": 1}' | .venvs/peers/bin/python benchmarks/peers/pgx_connect_four.py scan
"""

import sys
from typing import Any

import jax
import jax.numpy as jnp
import pgx
from meter import Loop, serve
from pgx.experimental import auto_reset

FORM = sys.argv[1] if len(sys.argv) > 1 else "step"
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
SCAN_LENGTH = 128  # steps in one call, the length of a usual rollout

Carry = tuple[Any, pgx.State, jax.Array]  # random key, states, games ended so far

_env = pgx.make("connect_four")
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


def _many_steps(carry: Carry) -> Carry:
    return jax.lax.scan(lambda inner, _: (_one_step(inner), None), carry, length=SCAN_LENGTH)[0]


def make_loop(batch: int) -> Loop:
    """A turn is one call: one step of every row, or `SCAN_LENGTH` of them."""
    # donated: the states are overwritten in place
    call = jax.jit(_many_steps if FORM == "scan" else _one_step, donate_argnums=0)
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

    return Loop(play, batch * SCAN_LENGTH if FORM == "scan" else batch)


if __name__ == "__main__":
    serve(make_loop, ["pgx", "jax", "jaxlib"])
