"""Tools behind the commands."""
