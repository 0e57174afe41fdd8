"""What this machine can do for a lab: each finding with its fix."""

import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from railweave.framework.errors import (
    ControllerError,
    MachineError,
    NotInstalledError,
    RailweaveError,
    blaming,
)
from railweave.framework.experiment.plan import load_plan
from railweave.framework.experiment.schema import KINDS
from railweave.framework.hookspecs import Controller
from railweave.framework.lab.plugin import in_lab
from railweave.framework.lab.sandbox import namespaces_fix, unshare_command
from railweave.framework.lab.switching import red, shaping
from railweave.framework.lab.switching.datapath import FIX, KERNEL, refusal
from railweave.framework.lab.tasks.run import lab_task
from railweave.framework.model.events import ProcessDied, ProcessReady, RunEvent
from railweave.framework.parameters import resolve
from railweave.framework.processes.programs import run, tool
from railweave.framework.registry import Registers, load_plugins

ENOUGH_BUFFER = 8 << 20
"""Bytes of a socket's buffer; the kernel grants twice as much for bookkeeping, and all queues of a switch
share it."""
LIMITS = ("wmem_max", "rmem_max")
DEFAULT_CONTROLLER = KINDS["controller"]
CONTROLLER_WITHIN_S = 30.0
"""Seconds for the controller to start, from a cold disk as well."""
CONTROLLER_FIX = "`make setup` installs its library"


@dataclass(frozen=True, slots=True)
class MachineCheck:
    """`ok`: True, False (no run without it), or None: a run works, with a limit. `fix`: what to do about
    it."""

    name: str
    ok: bool | None
    detail: str
    fix: str = ""


def findings() -> list[MachineCheck]:
    """Check everything; the last findings come from a small lab that is brought up and down."""
    registers = load_plugins()
    checks = [
        _checked("programs", _programs), _checked("namespaces", _namespaces),
        *_controllers(registers), _buffers(),
    ]  # fmt: skip
    if any(finding.ok is False for finding in checks):
        return [
            *checks,
            MachineCheck("lab", None, "not tried: what it needs is missing", "fix the above first"),
        ]
    return checks + _lab(registers)


def _checked(name: str, check: Callable[[], str], missing: bool | None = False) -> MachineCheck:
    """What `check` returns, or the error it raises with the finding `missing`."""
    try:
        return MachineCheck(name, True, check())
    except RailweaveError as error:
        detail, _, fix = str(error).partition(". ")
        return MachineCheck(name, missing, detail, fix)


def _programs() -> str:
    names = ("ip", "tc", "nft", "unshare", "setpriv", "ovs-vsctl", "ovs-dpctl", "mnexec")
    version = run([tool("ovs-vswitchd"), "--version"]).splitlines()[0]
    return f"{version}; {', '.join(name for name in names if tool(name))}"


def _namespaces() -> str:
    done = subprocess.run([*unshare_command(), tool("true")], capture_output=True, text=True, check=False)
    if done.returncode:
        refusal = done.stderr.strip()
        raise MachineError(f"private namespaces are refused: {refusal}. {namespaces_fix(refusal)}")
    user = ", as this user" if "--user" in unshare_command() else ""
    return f"network, mount and process namespaces can be made{user}"


def _controllers(registers: Registers) -> list[MachineCheck]:
    """Start each registered controller as a run would, and stop it. A run needs the default one alone."""
    return [
        _checked(
            f"controller {name}",
            partial(_started, name, controller),
            missing=False if name == DEFAULT_CONTROLLER else None,
        )
        for name, controller in registers["controller"].items()
    ]


def _started(name: str, registered: Controller) -> str:
    began = time.monotonic()
    with blaming(f"controller {name}"), os.fdopen(os.memfd_create("controller.log")) as log:
        try:
            controller = registered.configured(resolve(f"controller {name}", registered.parameters, {}))
        except NotInstalledError as error:
            if name == DEFAULT_CONTROLLER:
                raise
            return f"optional: {error}"
        controller.start([], f"/proc/self/fd/{log.fileno()}")
        try:
            while select.select([controller], [], [], CONTROLLER_WITHIN_S)[0]:
                for event in controller.events():
                    if isinstance(event, ProcessReady):
                        return f"starts in {time.monotonic() - began:.1f} s"
                    if isinstance(event, ProcessDied):
                        raise ControllerError(f"{event.why.strip().splitlines()[-1]}. {CONTROLLER_FIX}")
        finally:
            controller.stop()
    raise ControllerError(f"not ready within {CONTROLLER_WITHIN_S:.0f} s. {CONTROLLER_FIX}")


def _buffers() -> MachineCheck:
    """The userspace datapath sends through one packet socket; the kernel datapath queues upcalls on a few
    netlink sockets. Without real root their buffers grow to these limits only."""
    limits = {f"net.core.{name}": int(Path(f"/proc/sys/net/core/{name}").read_text()) for name in LIMITS}
    detail = ", ".join(f"{name} is {limit >> 10} KiB" for name, limit in limits.items())
    small = [name for name, limit in limits.items() if limit < ENOUGH_BUFFER]
    if not small or "--user" not in unshare_command():
        return MachineCheck("buffers", True, detail)
    settings = " ".join(f"{name}={ENOUGH_BUFFER}" for name in small)
    detail += ": all queues of a switch share twice that"
    return MachineCheck("buffers", None, detail, f"as root: sysctl -w {settings}; or run as root")


def _lab(registers: Registers) -> list[MachineCheck]:
    plan = load_plan(None, {"fault": "none"}, registers)
    try:
        facts = in_lab("doctor", {"document": plan.document()}, lambda _: None)
    except RailweaveError as error:
        return [MachineCheck("lab", False, str(error), "run with -v, and read docs/architecture.md, The lab")]
    datapath, refusal_text, buffer = facts["datapath"], facts["refusal"], facts["send_buffer_bytes"]
    return [
        MachineCheck("datapath", True if datapath == KERNEL else None, f"{datapath} datapath of Open vSwitch"
                + (f": {refusal_text}" if refusal_text else ""), FIX),
        MachineCheck("netem", True, "link latency can be emulated") if facts["netem"] else
        MachineCheck("netem", None, "this kernel has no netem: link latencies must be 0",
                "as root: modprobe sch_netem; or use the VM lab"),
        MachineCheck("marks", True, "the kernel's RED marks packets, by the queue that they enter")
        if facts["red"]
        else MachineCheck("marks", None, "no RED in this kernel: links mark in eight levels, by samples",
                          "as root: modprobe sch_red; or use the VM lab"),
        MachineCheck("lab", True, f"{facts['gpus']} GPUs up in {facts['bring_up_s']:.1f} s"
                + (f", send buffer {buffer >> 10} KiB" if buffer else "")),
        MachineCheck("capacity", True, f"{facts['hops_per_core_s']:,.0f} packet-hops/s per core, "
                f"{facts['hops_s']:,.0f} in all; rate scale {facts['rate_scale']:.2g} for the main job"),
    ]  # fmt: skip


def task(message: Mapping[str, Any], _emit: Callable[[RunEvent], None]) -> dict[str, Any]:
    """Bring up the lab of `message["document"]` and report what it can do."""
    with lab_task(message, lambda _: None) as session:
        lab, parts, capacity = session.engine.lab, session.parts, session.engine.scale.capacity
        namespace = lab.shards[0].namespace
        assert capacity is not None
        return {
            "gpus": lab.fabric.n_gpus,
            "datapath": lab.datapath,
            "refusal": refusal(namespace),
            "netem": shaping.kernel_has_netem(namespace),
            "red": red.kernel_has_red(next(iter(lab.hosts.values()))),
            "bring_up_s": parts.bring_up_s,
            "send_buffer_bytes": lab.send_buffer_bytes,
            "hops_per_core_s": capacity.hops_per_core_s,
            "hops_s": capacity.hops_s,
            "rate_scale": parts.rate_scale,
        }
