"""The version of senju."""

__version__ = "0.8.0"
