"""Faults done to a lab: what each verb means here."""

from __future__ import annotations

import os
import signal

import numpy as np

from railweave.framework.errors import LabError
from railweave.framework.faults import ResolvedFault
from railweave.framework.lab.emulation import Emulation
from railweave.framework.model.arrays import Float


def inject(lab: Emulation, fault: ResolvedFault, healthy_bps: Float, controller_pid: int | None) -> None:
    """Do it. `healthy_bps`: (n_links,) emulated rates of the fabric without faults."""
    links = np.asarray(fault.links)
    match fault.verb:
        case "degrade":
            lab.set_rates(links, healthy_bps[links] * float(fault.options["to"]))
        case "loss":
            lab.set_loss(links, float(fault.options["rate"]))
        case "down":
            lab.set_carrier(links, up=False)
        case "up":
            lab.set_carrier(links, up=True)
        case "restore":
            lab.set_rates(links, healthy_bps[links])
            lab.set_loss(links, 0.0)
            lab.set_carrier(links, up=True)
        case "kill" if fault.process == "controller":
            if controller_pid is not None:  # it is being restarted: dead already
                os.kill(controller_pid, signal.SIGKILL)
        case "kill":
            os.kill(lab.shards[int(lab.placement[fault.node])].pids["ovs-vswitchd"], signal.SIGKILL)
        case other:
            raise LabError(f"{fault.text!r}: the emulation cannot {other}.")
