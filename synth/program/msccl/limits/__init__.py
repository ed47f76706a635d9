"""Whether a draft fits into a runtime."""
