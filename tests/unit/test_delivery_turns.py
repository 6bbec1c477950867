"""Processing order of waiting records."""

from domain.delivery import RecordPosition, in_turn


def test_partition_order_ignores_timestamps() -> None:
    records = [RecordPosition(1, 4, 10), RecordPosition(1, 5, 5), RecordPosition(0, 2, 50), RecordPosition(0, 3, 7)]
    assert in_turn(reversed(records), lambda each: each) == records


def test_partitions_are_merged_by_timestamp() -> None:
    records = [RecordPosition(3, 9, 1), RecordPosition(0, 1, 2), RecordPosition(3, 10, 3), RecordPosition(0, 2, 4)]
    assert in_turn(reversed(records), lambda each: each) == records
