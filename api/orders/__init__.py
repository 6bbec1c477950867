"""Endpoints of orders."""
