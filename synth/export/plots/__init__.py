"""Pictures of topologies, plans and schedules; each function takes and returns matplotlib Axes."""
