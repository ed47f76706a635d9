"""Schedules of least finish time by send times."""
