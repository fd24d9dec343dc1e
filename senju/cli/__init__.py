"""The command line (main.py): the only part that prints."""
