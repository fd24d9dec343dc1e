"""The agents' learners in processes of their own, around shared memory."""

from senju.training.learners.processes import LearnerProcesses

__all__ = ["LearnerProcesses"]
