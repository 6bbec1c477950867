"""Consumers of review submissions, and the relay of stored reviews."""
