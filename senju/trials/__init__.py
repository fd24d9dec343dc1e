"""Trials: what is promised of the engine, tried out. Equal bytes, speed, where time goes, endurance."""
