"""Pgx's Shogi on the CPU, a call for every step of all rows: 119 planes as booleans, and the legal mask.

Many steps in one call, which serves Pgx in small games, are left out: a step takes milliseconds, beside
which the call itself is little. Pgx ends a game by mate or after 512 plies; it does not look for
repetition or the entering king.

    echo '{"batch": 64, "seconds": 1}' | .venvs/peers/bin/python benchmarks/peers/pgx_shogi.py
"""

import sys

from meter import serve
from pgx_play import LIBRARIES, random_loop

SEED = int(sys.argv[1]) if len(sys.argv) > 1 else 1

if __name__ == "__main__":
    serve(lambda batch: random_loop("shogi", batch, SEED), LIBRARIES)
