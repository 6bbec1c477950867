"""`python -m plaudit` is `plaudit`."""

from plaudit.cli import main

main()
