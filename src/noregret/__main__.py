"""`python -m noregret` is the command line."""

from noregret.cli import main

main()
