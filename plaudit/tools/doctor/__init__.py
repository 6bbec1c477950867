"""`plaudit doctor`: finds problems, and advises what to do about them."""
