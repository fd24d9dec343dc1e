"""Collecting (rollout.py): shards of rows played by a policy, written into slots."""
