"""Files out of the stages: schedules and side-cars as JSON, plots."""
