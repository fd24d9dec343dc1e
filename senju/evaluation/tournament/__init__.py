"""The tournament: all players meet each other, on all cores, until every pair is decided."""
