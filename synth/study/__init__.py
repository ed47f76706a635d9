"""Studies on top of the stages: adaptive splitting, thresholds. Nothing in the stages imports from here."""
