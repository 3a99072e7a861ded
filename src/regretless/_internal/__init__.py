"""Private helpers that all parts of the library share; not for users."""
