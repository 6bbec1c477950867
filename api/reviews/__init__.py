"""Endpoints of reviews."""
