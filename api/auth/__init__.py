"""Authentication: credentials in the header of a request become a caller, or the request is refused."""
