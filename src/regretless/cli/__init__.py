"""The command line."""

from regretless.cli.app import main

__all__ = ["main"]
