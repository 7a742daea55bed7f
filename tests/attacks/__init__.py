"""Attacks on the promises of docs/reliability.md.

Each is a function of a seed and a number of tries that returns a `Tally`. The tests run a few of
each; `make attack MINUTES=N` and benchmarks/attacks.py run more, with other seeds.
"""
