"""How the math threads wait for each other; imported before torch, which starts them.

GNU OpenMP's threads wait in a busy loop for milliseconds. On a machine that others use too, a thread
that is not running then holds up one that spins, and learning was seen to become three to ten times
slower. A short spin before sleeping cost nothing measurable on a quiet machine and gave 70,000 steps/s
instead of 41,000 beside one busy process. A user's own settings are left alone.
"""

import os

if "OMP_WAIT_POLICY" not in os.environ:
    os.environ.setdefault("GOMP_SPINCOUNT", "1000")
