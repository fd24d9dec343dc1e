"""Shogi: complete rules, its texts, and positions for people and engines."""
