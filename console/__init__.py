"""The console: Plaudit in the browser, over its own interface."""
