"""The run folder (run.py): settings, checkpoints, metrics, the control socket, the timeline."""
