"""`python -m ling` is the `ling` command."""

from ling.cli import main

main()
