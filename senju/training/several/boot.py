"""The first lines of an agent's process: watch the parent, then load the rest, which takes seconds.

This file is run by its path and imports nothing of senju before it knows where to find it.
"""

import json
import os
import sys
import threading


def main() -> None:
    """Begin with what `AgentProcess` says, as JSON: path, run, max_updates, what is trusted, pipes."""
    told = json.loads(sys.argv[1])
    threading.Thread(target=end_with_the_parent, args=(told["lifeline"],), daemon=True).start()
    sys.path[:] = told["path"]  # the parent's, since it may be the only way to find senju
    from senju.training.several.agent import train_agent
    from senju.trust import accept

    accept(told["accepted"])
    sys.exit(train_agent(told["run"], told["max_updates"], told["events"], told["trust"]))


def end_with_the_parent(lifeline: int) -> None:
    """Nothing is ever written to the lifeline: it ends when the parent does, however that ends."""
    os.read(lifeline, 1)
    os._exit(1)


if __name__ == "__main__":
    main()
