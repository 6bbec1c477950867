"""Deliberate breaks: one small patch for each promise, and the run of the fault suite that must detect it."""
