"""Measurements of speed, memory and latency."""
