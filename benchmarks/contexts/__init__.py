"""Contexts: what a model that shares strength between them saves."""
