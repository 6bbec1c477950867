"""Command line, configuration, composition root and embedded servers of Plaudit."""
