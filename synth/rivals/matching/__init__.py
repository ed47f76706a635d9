"""Greedy link-chunk matching on the time-expanded network."""
