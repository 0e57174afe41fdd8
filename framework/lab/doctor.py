"""What this machine can do for a lab: each finding with its mend."""

from __future__ import annotations

import os
import select
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from railweave.framework.channel import Channel
from railweave.framework.errors import MachineError, RailweaveError
from railweave.framework.experiment import from_document, load
from railweave.framework.experiment_model import KINDS
from railweave.framework.hookspecs import Controller
from railweave.framework.lab import shaping
from railweave.framework.lab.conductor import Conductor
from railweave.framework.lab.datapath import KERNEL, MEND, refusal
from railweave.framework.lab.ovs import run, tool
from railweave.framework.lab.plugin import as_error
from railweave.framework.lab.sandbox import TUN, Sandbox, check_machine, namespaces_mend, unshare_command
from railweave.framework.registry import Registers
from railweave.framework.registry import load as load_registers

ENOUGH_BUFFER = 8 << 20
LIMITS = ("wmem_max", "rmem_max")
DEFAULT_CONTROLLER = KINDS["controller"]
CONTROLLER_WITHIN_S = 30.0


@dataclass(frozen=True, slots=True)
class Finding:
    """`ok`: True, False (no run without it), or None: a run works, with a limit."""

    name: str
    ok: bool | None
    detail: str
    mend: str = ""


def findings() -> list[Finding]:
    """Look at everything; the last findings come from a small lab that is brought up and down for it."""
    registers = load_registers()
    found = [_programs(), _namespaces(), _tun(), *_controllers(registers), _buffers()]
    if any(f.ok is False for f in found):
        return [*found, Finding("lab", None, "not tried: what it needs is missing", "mend the above first")]
    return found + _lab(registers)


def _guard(name: str, look: Callable[[], str]) -> Finding:
    try:
        return Finding(name, True, look())
    except RailweaveError as error:
        what, _, mend = str(error).partition(". ")
        return Finding(name, False, what, mend)


def _programs() -> Finding:
    def look() -> str:
        check = {
            name: tool(name)
            for name in ("ip", "tc", "nft", "unshare", "setpriv", "ovs-vsctl", "ovs-dpctl", "mnexec")
        }
        version = run([tool("ovs-vswitchd"), "--version"]).splitlines()[0]
        return f"{version}; {', '.join(check)}"

    return _guard("programs", look)


def _namespaces() -> Finding:
    def look() -> str:
        done = subprocess.run([*unshare_command(), tool("true")], capture_output=True, text=True, check=False)
        if done.returncode:
            said = done.stderr.strip()
            raise MachineError(f"private namespaces are refused: {said}. {namespaces_mend(said)}")
        return "network, mount and process namespaces open" + (
            "" if "--user" not in unshare_command() else ", as this user"
        )

    return _guard("namespaces", look)


def _tun() -> Finding:
    def look() -> str:
        check_machine()
        return f"{TUN} opens"

    return _guard("tun device", look)


def _controllers(registers: Registers) -> list[Finding]:
    """Start each registered controller as a run would, and stop it."""
    found = []
    for offer in registers["controller"].offers():
        began = time.monotonic()
        why = _cannot_start(offer.thing.configured({}))
        detail = why or f"starts in {time.monotonic() - began:.1f} s"
        # the default one is needed; another is a limit
        bad = False if offer.name == DEFAULT_CONTROLLER else None
        mend = "`make setup` installs it; on Python 3.12 and later setuptools must be in the environment"
        found.append(Finding(f"controller {offer.name}", bad if why else True, detail, mend if why else ""))
    return found


def _cannot_start(controller: Controller) -> str:
    """Why the controller does not come up, or nothing."""
    with os.fdopen(os.memfd_create("controller.log")) as log:  # a log without a file
        controller.start([], f"/proc/self/fd/{log.fileno()}")
        try:
            while select.select([controller], [], [], CONTROLLER_WITHIN_S)[0]:
                for event in controller.events():
                    if event.kind == "ready":
                        return ""
                    if event.kind == "died":
                        return str(event.data["why"]).strip().splitlines()[-1]
            return f"says nothing for {CONTROLLER_WITHIN_S:.0f} s"
        finally:
            controller.stop()


def _buffers() -> Finding:
    """A switch sends through one socket where it is a process, and hears of new flows by a few where it is not."""
    limits = {f"net.core.{name}": int(Path(f"/proc/sys/net/core/{name}").read_text()) for name in LIMITS}
    found = ", ".join(f"{name} is {limit >> 10} KiB" for name, limit in limits.items())
    small = [name for name, limit in limits.items() if limit < ENOUGH_BUFFER]
    if not small or "--user" not in unshare_command():
        return Finding("buffers", True, found)
    mend = " ".join(f"{name}={ENOUGH_BUFFER}" for name in small)
    return Finding(
        "buffers",
        None,
        f"{found}: all queues of a switch share twice that",
        f"as root: sysctl -w {mend}; or run as root",
    )


def _lab(registers: Registers) -> list[Finding]:
    plan = load(None, {"fault": "none"}, registers)
    facts: dict[str, Any] = {}
    try:
        with Sandbox("doctor", {"document": plan.document()}) as lab:
            for message in lab.messages():
                if message["kind"] == "error":
                    raise as_error(message)
                if message["kind"] == "result":
                    facts = message
    except RailweaveError as error:
        return [Finding("lab", False, str(error), "run with -v, and read docs/architecture.md, The lab")]
    datapath = facts["datapath"]
    return [
        Finding("datapath", True if datapath == KERNEL else None, f"{datapath} datapath of Open vSwitch"
                + (f": {facts['refusal']}" if facts["refusal"] else ""), MEND),
        Finding("netem", facts["netem"] or None, "link latency can be emulated" if facts["netem"]
                else "this kernel has no netem: link latencies must be 0", "as root: modprobe sch_netem; or the VM lab"),
        Finding("lab", True, f"{facts['gpus']} GPUs up in {facts['bring_up_s']:.1f} s" + (
                f", send buffer {facts['send_buffer_bytes'] >> 10} KiB" if facts["send_buffer_bytes"] else "")),
        Finding("capacity", True, f"{facts['hops_per_core_s']:,.0f} packet-hops/s per core, "
                f"{facts['hops_s']:,.0f} in all; rate scale {facts['rate_scale']:.2g} for the main job"),
    ]  # fmt: skip


def task(message: Mapping[str, Any], channel: Channel) -> None:
    """Inside: bring the plan's fabric up and say what it found."""
    registers = load_registers()
    plan = from_document(message["document"], registers)
    conductor = Conductor(plan, registers, lambda _: None)
    try:
        conductor.bring_up()
        assert conductor.capacity is not None
        channel.send({
            "kind": "result",
            "gpus": plan.fabric.n_gpus,
            "datapath": conductor.lab.datapath,
            "refusal": refusal(conductor.lab.shards[0].namespace),
            "netem": shaping.kernel_has_netem(conductor.lab.shards[0].namespace),
            "bring_up_s": conductor.notebook.figures["bring_up_s"],
            "send_buffer_bytes": conductor.lab.send_buffer_bytes,
            "hops_per_core_s": conductor.capacity.hops_per_core_s,
            "hops_s": conductor.capacity.hops_s,
            "rate_scale": conductor.rate_scale,
        })  # fmt: skip
    finally:
        conductor.down()
