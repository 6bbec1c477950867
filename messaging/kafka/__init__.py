"""The Kafka client: connections, publishing and reading, and what is touched of aiokafka."""
