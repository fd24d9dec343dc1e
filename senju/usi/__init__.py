"""The USI engine: an agent with its search, as Shogi programs talk to it."""
