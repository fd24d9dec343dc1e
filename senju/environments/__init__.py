"""A user's own world in ordinary Python (environment.py): copies in worker processes, a learner per agent."""
