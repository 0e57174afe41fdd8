"""Measurements become published h-scores: smoothing and publishing. All pure but the monitor, which holds
the state between steps."""
