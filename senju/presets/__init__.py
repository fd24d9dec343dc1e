"""Ready-made settings: GAME.yaml, and GAME_NAME.yaml for `senju train GAME --preset NAME`."""
