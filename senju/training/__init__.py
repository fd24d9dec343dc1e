"""Training: everything put together (trainer.py)."""
