"""Feedback on reviews in MongoDB: replies, votes, reports."""
