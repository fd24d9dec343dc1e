"""The version of senju."""

__version__ = "0.1.0"
