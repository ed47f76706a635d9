"""Built-in topologies by name, with their parameters."""
