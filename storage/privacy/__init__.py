"""The data of people in MongoDB."""
