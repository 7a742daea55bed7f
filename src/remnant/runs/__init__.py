"""Runs: the loop over tasks, the run folder, and several runs at once."""
