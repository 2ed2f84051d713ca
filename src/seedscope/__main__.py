"""`python -m seedscope`: the command, where it is not on the path."""

from seedscope.commands.cli import main

main()
