"""Experiments on the measuring itself, for the page on trust: `make experiments`."""
