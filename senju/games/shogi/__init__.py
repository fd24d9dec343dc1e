"""Shogi: complete rules, notations and records, and positions for interactive use."""
