"""Deliberate breaks: one small patch for each promise, and the run of the suite that has to notice it."""
