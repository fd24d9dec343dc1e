"""The version of senju."""

__version__ = "0.2.0"
