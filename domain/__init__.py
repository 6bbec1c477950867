"""The rules of Plaudit, pure: no I/O, no framework, no clock of its own."""
