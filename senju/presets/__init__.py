"""Ready-made settings, one YAML file per game."""
