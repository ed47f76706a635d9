"""Rivals: everything that makes a schedule of its own."""
