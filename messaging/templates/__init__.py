"""Templates of mails: the language, its bounds, and rendering."""
