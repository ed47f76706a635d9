"""The step MILP: which chunk goes over which hop in which step."""
