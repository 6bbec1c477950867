"""The console: moderation and support in the browser, as HTML over the facade's own queries and commands."""
