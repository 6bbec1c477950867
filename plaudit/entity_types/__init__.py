"""Registered object types, and their resolvers."""
