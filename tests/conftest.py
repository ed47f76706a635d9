"""One Hypothesis profile for all tests: the same examples in every run, and no verdict that depends on the clock."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

settings.register_profile("fixed", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("fixed")
