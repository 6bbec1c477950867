"""Endpoints of ratings."""
