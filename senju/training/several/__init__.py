"""Several agents: independent runs trained side by side, each in a process of its own."""
