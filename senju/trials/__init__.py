"""Trials of the engine's promises (rig.py): verify (equal bytes), bench (speed), profile and soak."""
