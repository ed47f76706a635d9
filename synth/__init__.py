"""synth: certified collective-communication schedules by linear programming."""
