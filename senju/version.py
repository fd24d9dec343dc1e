"""The version of senju."""

__version__ = "0.4.0"
