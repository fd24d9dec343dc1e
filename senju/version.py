"""The version of senju."""

__version__ = "0.6.0"
