"""Programs that Plaudit is measured against: those that somebody would write, or use, in its place."""
