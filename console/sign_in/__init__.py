"""Sign-in to the console: a credential becomes a session, kept in a sealed cookie."""
