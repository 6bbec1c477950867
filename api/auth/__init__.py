"""Authentication: the credential in a request's headers becomes a caller, or the request is refused."""
