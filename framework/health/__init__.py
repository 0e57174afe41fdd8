"""Measurements become published h-scores: smoothing and publishing. All pure but the monitor, which holds
the state between steps."""

from railweave.framework.health.monitor import HealthMonitor
from railweave.framework.health.options import HealthOptions
from railweave.framework.health.publishing import aggregate, publish, settle
from railweave.framework.health.smoothing import LinkTracker, observe

__all__ = [
    "HealthMonitor",
    "HealthOptions",
    "LinkTracker",
    "aggregate",
    "observe",
    "publish",
    "settle",
]
