"""The version of senju."""

__version__ = "0.7.0"
