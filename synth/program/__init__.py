"""Programs: what a runtime loads, and the verifiers without which none exists."""
