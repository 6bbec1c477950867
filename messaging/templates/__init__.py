"""Mail templates: the language, its bounds, and rendering."""
