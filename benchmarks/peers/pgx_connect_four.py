"""Pgx's Connect Four on the CPU, in two forms: a call for every step, or many steps in one call.

A call for every step is what a policy outside JAX needs, and what senju's own loop does. Many
steps in one call (`lax.scan`) is Pgx at its best: only a policy inside the same program can use it.

    echo '{"batch": 64, "seconds": 1}' | .venvs/peers/bin/python benchmarks/peers/pgx_connect_four.py scan
"""

import sys

from meter import serve
from pgx_play import LIBRARIES, random_loop

FORM = sys.argv[1] if len(sys.argv) > 1 else "step"
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1
STEPS_PER_CALL = {"step": 1, "scan": 128}  # 128: the length of a usual rollout

if __name__ == "__main__":
    serve(lambda batch: random_loop("connect_four", batch, SEED, STEPS_PER_CALL[FORM]), LIBRARIES)
