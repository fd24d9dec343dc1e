"""Random play in Pgx's games on the CPU, for the scripts beside it.

Every call returns the whole state: observation, legal mask, rewards, terminated. The legal action is
drawn with one random number per row, which is faster than Pgx's own `act_randomly`.
"""

from typing import Any

import jax
import jax.numpy as jnp
import pgx
from meter import Loop
from pgx.experimental import auto_reset

LIBRARIES = ["pgx", "jax", "jaxlib"]

Carry = tuple[Any, pgx.State, jax.Array]  # random key, states, games ended so far


def _choose_at_random(key: Any, legal: jax.Array) -> jax.Array:
    """Any legal action, equally likely."""
    rank = jnp.cumsum(legal, axis=1)  # [row, action]
    num_legal = rank[:, -1]
    wanted = (jax.random.uniform(key, num_legal.shape) * num_legal).astype(jnp.int32)
    # the product may round up to num_legal itself
    wanted = jnp.minimum(wanted, num_legal - 1)
    return jnp.argmax(rank > wanted[:, None], axis=1)


def random_loop(game: str, batch: int, seed: int, steps_per_call: int = 1) -> Loop:
    """A turn is one call: one step of every row, or many of them (`lax.scan`)."""
    env = pgx.make(game)
    init_all = jax.vmap(env.init)
    step_all = jax.vmap(auto_reset(env.step, env.init))

    def one_step(carry: Carry) -> Carry:
        key, state, games = carry
        key, choice_key, step_key = jax.random.split(key, 3)
        actions = _choose_at_random(choice_key, state.legal_action_mask)
        state = step_all(state, actions, jax.random.split(step_key, actions.shape[0]))
        return key, state, games + state.terminated.sum()

    def many_steps(carry: Carry) -> Carry:
        return jax.lax.scan(lambda inner, _: (one_step(inner), None), carry, length=steps_per_call)[0]

    # donated: the states are overwritten in place
    call = jax.jit(one_step if steps_per_call == 1 else many_steps, donate_argnums=0)
    key, init_key = jax.random.split(jax.random.PRNGKey(seed))
    state = jax.jit(init_all)(jax.random.split(init_key, batch))
    carry: Carry = (key, state, jnp.int32(0))

    def play(num_turns: int) -> int:
        nonlocal carry
        carry = (carry[0], carry[1], jnp.int32(0))
        for _ in range(num_turns):
            carry = call(carry)
        carry[1].observation.block_until_ready()
        return int(carry[2])

    return Loop(play, batch * steps_per_call)
