"""From a schedule to thread blocks."""
