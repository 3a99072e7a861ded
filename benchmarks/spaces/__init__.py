"""Spaces with structure: parameters that are not always there, and limits among parameters."""
