"""Programs that Plaudit is compared with: bare loops, and what one would write or use instead."""
