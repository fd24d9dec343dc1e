"""The USI engine (protocol.py): an agent with its search, as Shogi programs talk to it."""
