"""Runs with guardrails on random problems, beside tools that can model constraints."""
