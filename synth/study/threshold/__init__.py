"""From which size on an extra path pays."""
