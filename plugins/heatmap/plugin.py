"""Registers the report `traffic`."""

from collections.abc import Callable

from railweave.framework.hookspecs import Report, hookimpl
from railweave.plugins.heatmap.traffic_heatmap import TrafficHeatmap


@hookimpl
def register_reports(register: Callable[[str, Report], None]) -> None:
    register("traffic", TrafficHeatmap())
