"""The nouns: frozen, typed, checked when made. Nothing else crosses a folder boundary."""

from railweave.framework.model.circuits import CircuitSwitches, UnitKind
from railweave.framework.model.fabric import Endpoint, Fabric, FabricBuilder, Link
from railweave.framework.model.health import HealthSnapshot, Measurement
from railweave.framework.model.node_group import NodeGroup
from railweave.framework.model.path_counts import PathCounts
from railweave.framework.model.routes import Path, PathBatch, RouteTable, all_pairs
from railweave.framework.model.rules import (
    CONTROLLER_PORT,
    Action,
    EntropyTable,
    Match,
    Output,
    Rule,
    RuleUpdate,
    SetDscp,
)
from railweave.framework.model.schedule import Schedule, Spans
from railweave.framework.model.traffic import Demand, IterationResult, PacketFormat

__all__ = [
    "CONTROLLER_PORT",
    "Action",
    "CircuitSwitches",
    "Demand",
    "Endpoint",
    "EntropyTable",
    "Fabric",
    "FabricBuilder",
    "HealthSnapshot",
    "IterationResult",
    "Link",
    "Match",
    "Measurement",
    "NodeGroup",
    "Output",
    "PacketFormat",
    "Path",
    "PathBatch",
    "PathCounts",
    "RouteTable",
    "Rule",
    "RuleUpdate",
    "Schedule",
    "SetDscp",
    "Spans",
    "UnitKind",
    "all_pairs",
]
