"""The training engine: one loop, on one device or many, that can be stopped at any moment."""
