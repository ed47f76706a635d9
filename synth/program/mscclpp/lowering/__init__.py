"""From a schedule to an execution plan."""
