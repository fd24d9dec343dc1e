"""The arena: everybody plays everybody, on all cores, until it is clear who is stronger."""
