"""What each kind of path adds to a collective."""
