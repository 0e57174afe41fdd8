"""Every extension point: the hooks a plugin implements and the shapes of what it registers.

A plugin is a module named under the entry-point group `railweave`. It implements any of the hooks below with
`@hookimpl`. What it registers has every member of the Protocol of its kind; a missing one is refused when the
command starts. A class that inherits the Protocol, as in `class Mine(Router)`, need not write the members
that have a value or a body here.
"""

from railweave.framework.hookspecs.choosing import ChoosesPaths, PathChooser
from railweave.framework.hookspecs.configurable import Configurable
from railweave.framework.hookspecs.congestion import CongestionControl, ControlsCongestion
from railweave.framework.hookspecs.engines import Callers, Capture, Controller, Engine, Estimate, Transport
from railweave.framework.hookspecs.estimators import (
    EVIDENCE,
    CountsPaths,
    Estimator,
    LinkState,
    NeedsEvidence,
)
from railweave.framework.hookspecs.hooks import Hooks, hookimpl, hookspec
from railweave.framework.hookspecs.reports import Benchmark, Report
from railweave.framework.hookspecs.routing import (
    ExplainingRouter,
    Explanation,
    Fact,
    NodeName,
    Router,
    Topology,
)
from railweave.framework.hookspecs.sending import Collective, MadeForRouter, NotesOfTraffic, Workload

API = 1
"""Version of these contracts. A plugin may say `API = 1`; one that says a higher number is refused, a lower
one is served as docs/plugins.md says. It grows when a contract changes that plugins fulfil."""

__all__ = [
    "EVIDENCE",
    "Benchmark",
    "Callers",
    "Capture",
    "ChoosesPaths",
    "Collective",
    "Configurable",
    "CongestionControl",
    "Controller",
    "ControlsCongestion",
    "CountsPaths",
    "Engine",
    "Estimate",
    "Estimator",
    "ExplainingRouter",
    "Explanation",
    "Fact",
    "Hooks",
    "LinkState",
    "MadeForRouter",
    "NeedsEvidence",
    "NodeName",
    "NotesOfTraffic",
    "PathChooser",
    "Report",
    "Router",
    "Topology",
    "Transport",
    "Workload",
    "hookimpl",
    "hookspec",
]
