"""Reminders in MongoDB."""
