"""A user's own world in ordinary Python: copies of it in worker processes, a learner for each agent."""
