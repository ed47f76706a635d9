"""Step-optimal schedules of small machines."""
