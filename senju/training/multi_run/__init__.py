"""Several agents: independent runs trained side by side, each in its own process."""
