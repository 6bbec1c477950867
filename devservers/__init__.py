"""Servers for `plaudit up` and the tests on machines that have none: MongoDB and Kafka as child processes."""
