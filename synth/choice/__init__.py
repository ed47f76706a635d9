"""Choices among schedules: a contest at one size, and one at every size."""
