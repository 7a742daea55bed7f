"""A transform coder made for small pictures."""
