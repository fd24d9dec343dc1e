"""Opponents: players of every kind (players.py), the pool of an agent's past, scores and ratings."""
