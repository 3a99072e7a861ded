"""What every part of the library may use and no user should."""
