"""Races: accesses that nothing orders (``check``), and those among them that an output depends on (``live``)."""
