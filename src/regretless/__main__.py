"""`python -m regretless` is the command line."""

from regretless.cli.app import main

main()
