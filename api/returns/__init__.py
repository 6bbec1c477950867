"""Endpoints of returns."""
