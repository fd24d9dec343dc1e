"""How strong agents are: matches (matches.py), tournaments, episodes, plots."""
