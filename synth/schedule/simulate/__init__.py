"""The time model: what a schedule takes, and what none can beat."""
