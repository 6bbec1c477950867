"""Plaudit put together: command line, configuration, composition root and embedded servers."""
