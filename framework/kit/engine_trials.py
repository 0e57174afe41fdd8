"""Short runs of an engine, the bytes that links should carry in them, and what a process holds meanwhile."""

import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from railweave.framework.errors import blaming, type_name
from railweave.framework.experiment.faults import parse
from railweave.framework.experiment.plan import Plan, plan_from_keys
from railweave.framework.experiment.wants import lacked
from railweave.framework.hookspecs import Engine
from railweave.framework.kit.check_report import Broken
from railweave.framework.kit.subject import Sample, Subject
from railweave.framework.model.arrays import Float
from railweave.framework.model.events import RunEvent
from railweave.framework.model.findings import Findings
from railweave.framework.registry import Registers

SIZE = 1 << 20
"""Bytes of a message: at the largest MTU 256 packets, so that one packet more at each link matters little."""
TIMEOUT = "60s"


@dataclass(frozen=True)
class Trial:
    """Runs of an engine on a fabric."""

    subject: Subject
    registers: Registers
    sample: Sample

    def plan(self, registers: Registers | None = None, **keys: Any) -> Plan:
        """A message from the first GPU to the last and one back, on routes that stay; `keys` replace those of
        the experiment. Raises ExperimentError where it is refused."""
        fabric, subject = self.sample.fabric, self.subject
        ends = (".".join(map(str, fabric.coordinates(gpu))) for gpu in (0, fabric.n_gpus - 1))
        base: dict[str, Any] = {
            "topology": {"name": self.sample.topology, **self.sample.options},
            "engine": {"name": subject.name, **subject.options},
            "ranks": f"gpu:{','.join(ends)}",
            "collective": "send-recv",
            "size": SIZE,
            "iterations": 1,
            "router": "shortest",  # one path, so that one transfer takes the rate of one
            "feedback": False,
            "timeout": TIMEOUT,
        }
        chosen = {key: value for key, value in (base | keys).items() if value is not None}
        return plan_from_keys(chosen, registers or self.registers)

    def run(self, plan: Plan, emit: Callable[[RunEvent], None] = lambda event: None) -> Findings:
        """What the engine found; no observer is called. Raises Broken where it is no Findings."""
        with blaming(f"engine {self.subject.name}: run()"):
            findings = plan.engine.run(plan, Registers(()), emit)
        if not isinstance(findings, Findings):
            raise Broken(f"run() returns {type_name(findings)} instead of Findings")
        return findings

    @cached_property
    def engine(self) -> Engine:
        engine: Engine = self.subject.made()
        return engine

    @cached_property
    def link(self) -> int:
        """The link that the message needs longest; of its only path, the slowest."""
        plan = self.plan()
        return int(np.argmax(loads(plan) / plan.fabric.capacity_bps))

    @property
    def link_name(self) -> str:
        return self.sample.fabric.link_name(self.link)

    @cached_property
    def switch(self) -> str:
        """The switch at one end of that link, or the GPU whose NIC is the switch."""
        fabric = self.sample.fabric
        return fabric.node_name(int(max(fabric.link_src[self.link], fabric.link_dst[self.link])))

    def lacks(self, fault: str) -> bool:
        return lacked(parse(f"at=iter:1 {fault}"), self.engine) is not None


def loads(plan: Plan) -> Float:
    """(n_links,): wire bytes of an iteration by the first routes."""
    schedule, ranks = plan.schedule.expand(), np.array(plan.ranks)
    sent = schedule.src != schedule.dst
    table = plan.healthy_table
    paths = table.paths(ranks[schedule.src[sent]], ranks[schedule.dst[sent]])
    path_bytes = plan.packet.wire_bytes_of(schedule.size[sent])[paths.path_pair] * paths.weight
    return np.bincount(paths.links, path_bytes[paths.hop_path], plan.fabric.n_links).astype(np.float64)


def held() -> set[str]:
    """The threads of this process and, on Linux, its child processes and open descriptors."""
    threads = {f"thread {thread.name}" for thread in threading.enumerate()}
    proc = Path("/proc/self")
    children = {f"process {pid}" for file in proc.glob("task/*/children") for pid in file.read_text().split()}
    descriptors = set[str]()
    for file in proc.glob("fd/*"):
        try:
            descriptors.add(f"descriptor {file.name} ({file.readlink()})")
        except OSError:  # that of the directory just read
            continue
    return threads | children | {text for text in descriptors if "/proc/" not in text}
