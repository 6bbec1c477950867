"""What Plaudit is measured against: programs that somebody would write, or use, in its place."""
