"""Sheets of pictures."""
