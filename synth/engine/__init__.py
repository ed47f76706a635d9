"""Engines: HiGHS kept live, and any engine that PuLP knows. No other room calls a solver."""
