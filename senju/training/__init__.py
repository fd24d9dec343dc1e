"""Training: everything put together."""
