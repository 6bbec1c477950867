"""The Kafka client: connections, publishing, reading, and the internals of aiokafka that are used."""
