"""The time of programs: thread blocks against the clock, their costs, and fitting those to measurements."""
