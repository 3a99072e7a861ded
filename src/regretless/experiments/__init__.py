"""Reproduce the paper's experiments: test problems, runs, records and the results page."""
