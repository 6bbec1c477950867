"""Endpoints of stores and settings, and the rules that they set."""
