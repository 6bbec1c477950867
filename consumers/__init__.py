"""FastStream subscribers: batch in, the domain decides, storage and messaging act."""
