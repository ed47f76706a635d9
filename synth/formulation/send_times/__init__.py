"""The MILP of send times, for links that are not alike."""
