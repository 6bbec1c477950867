"""HTTP for all endpoints: bodies, problems, limits, headers, documents."""
