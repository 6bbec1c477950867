"""Kafka: topics, message schemas, publisher, batch decoding, dead letters."""
