"""`python -m plaudit` is `plaudit`."""

from plaudit.cli.main import main

main()
