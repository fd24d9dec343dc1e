"""Opponents: players of every kind, the pool of an agent's past, and who beats whom."""
