"""Ratings in MongoDB."""
