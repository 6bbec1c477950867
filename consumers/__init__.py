"""Kafka consumers: each loads the state for a batch, lets the domain decide, and writes the result."""
