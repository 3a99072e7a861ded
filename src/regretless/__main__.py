"""`python -m regretless` is the command line."""

from regretless.cli import main

main()
