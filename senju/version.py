"""The version of senju."""

__version__ = "0.3.0"
