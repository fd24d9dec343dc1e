"""Search (puct.py): PUCT over any game of two seats in turn, with batched evaluation."""
