"""Senju's Shogi, measured as the peers are; `planes` with all planes, `mask` with legal actions alone.

echo '{"batch": 256, "seconds": 1}' | PYTHONPATH=. python benchmarks/peers/senju_shogi.py planes
"""

import sys

from meter import Loop, serve
from shogi_play import RandomPlay

FORM = sys.argv[1] if len(sys.argv) > 1 else "planes"
SEED = int(sys.argv[2]) if len(sys.argv) > 2 else 1


def make_loop(batch: int) -> Loop:
    """A turn is one step of every row."""
    return Loop(RandomPlay(batch, SEED, has_planes=FORM == "planes").play, batch)


if __name__ == "__main__":
    serve(make_loop, ["numba", "numpy"])
