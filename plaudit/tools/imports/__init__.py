"""Importing reviews from files."""
