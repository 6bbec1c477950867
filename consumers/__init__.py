"""Kafka consumers: each loads what a batch is about, lets the domain decide, and writes."""
