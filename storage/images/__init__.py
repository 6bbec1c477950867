"""Images: their documents in MongoDB, and their files."""
