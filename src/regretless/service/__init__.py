"""The HTTP service: the verbs of a study for other languages, and a page to watch it."""
