"""The embedded servers, as real processes."""
