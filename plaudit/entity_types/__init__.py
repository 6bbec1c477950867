"""Object types as the configuration registers them, and their resolvers."""
