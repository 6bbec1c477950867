"""The HTTP facade: thin routers that publish a command or run a query."""
