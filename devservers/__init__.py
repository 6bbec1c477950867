"""MongoDB and Kafka as child processes, for `plaudit up` and the tests on machines that have none."""
