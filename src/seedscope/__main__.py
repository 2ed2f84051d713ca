"""`python -m seedscope`: the command, where it is not on the path."""

from seedscope.cli import main

main()
