"""The version of senju."""

__version__ = "0.5.0"
