"""Ground: words that every room uses."""
