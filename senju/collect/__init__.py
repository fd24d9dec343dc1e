"""Collecting: shards of rows played by a policy, written into slots."""
