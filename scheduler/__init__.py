"""The reminder job and its clock."""
