"""Many parameters, few of which matter."""
