"""Command line, configuration, processes and tools of Plaudit."""
