"""Marks by the kernel's RED, in the queues of shaped links (CONFIG_NET_SCH_RED, Linux 5.7).

Three bands stand below the shaper as without RED; data waits in the second, and RED keeps that one. It gets
its parameters by netlink: `tc` smooths queues, by half of the last value at least, and DCQCN's ramp goes by
the queue as it is when a packet enters.
"""

import os
import socket
import struct
from collections.abc import Sequence
from math import floor

from railweave.framework.errors import LabError
from railweave.framework.experiment.ramp import Ramp
from railweave.framework.lab.switching.shaping import LINK_MTU, QUEUE_PACKETS, tc_batch
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.netlink import (
    NETLINK_ROUTE,
    RTM_NEWQDISC,
    TCMSG,
    attribute,
    put_request,
    refusal,
    text_attribute,
)
from railweave.framework.processes.programs import run, tool

RED_HANDLE = 4 << 16
"""`4:`, as the kernel numbers it."""
_PRIO, _DATA_BAND = "handle 3: prio", 3 << 16 | 2
LIMIT_BYTES = QUEUE_PACKETS * LINK_MTU
_TCA_KIND, _TCA_OPTIONS = 1, 2
"""TCA_KIND, TCA_OPTIONS (linux/rtnetlink.h)."""
_PARMS, _STAB, _MAX_P, _FLAGS = 1, 2, 3, 4
"""TCA_RED_PARMS, TCA_RED_STAB, TCA_RED_MAX_P, TCA_RED_FLAGS (linux/pkt_sched.h)."""
_QOPT = struct.Struct("=IIIBBBB")
"""tc_red_qopt (linux/pkt_sched.h): limit, thresholds in bytes, logarithms of the weight, the probability and
the unit of idle time, flags."""
_MARK_NEVER_DROP = 1 | 8
"""TC_RED_ECN and TC_RED_NODROP: what takes no part in ECN is queued, too."""
_FORGET = bytes([31]) * 256
"""By how many bits the mean of the queue is shifted after each idle time: nothing remains of it."""
_MOST_BYTES = 2**31 - 1
"""Largest limit of a queue that the kernel's 32 bits hold with a sign."""


def marked_share(probability: float) -> float:
    """The share of packets that RED marks at this probability, 0..1, while the queue keeps its length.

    It counts packets since the last mark, draws u in 0..1 after each mark, and marks the first whose
    count is u / p or more. So distances between marks are spread evenly from 1 to 1 / p packets, and are
    (k + 1)(1 - p k / 2) in the mean, with k the whole part of 1 / p. Source: red_action and
    red_mark_probability in include/net/red.h of Linux; method 2 in section 7 of Floyd and Jacobson, RED
    gateways, 1993.
    """
    if probability <= 0:
        return 0.0
    most = floor(1 / probability)
    return 1 / ((most + 1) * (1 - probability * most / 2))


def probability_of(share: float) -> float:
    """The probability at which RED marks this share of packets, 0..1: the inverse of `marked_share`."""
    if share <= 0:
        return 0.0
    most = floor(2 / share) - 1
    return 2 / most * (1 - 1 / (share * (most + 1)))


def parameters(ramp: Ramp) -> bytes:
    """What the kernel is told of a ramp (TCA_OPTIONS): thresholds, the queue as it is (weight 1), and the
    probability at which the share just below kmax is `pmax`."""
    low, high = (min(int(limit), _MOST_BYTES) for limit in (ramp.kmin_bytes, ramp.kmax_bytes))
    if ramp.pmax == 0:
        low = high  # the kernel takes a probability of 0 for one that was not given
    width = max(high - low, 1)
    per_byte = max(round(probability_of(ramp.pmax) * 2**32 / width), 1)  # the kernel keeps whole ones
    return (
        attribute(_PARMS, _QOPT.pack(LIMIT_BYTES, low, high, 0, 0, 0, 0))
        + attribute(_STAB, _FORGET)
        + attribute(_MAX_P, struct.pack("=I", min(per_byte * width, 2**32 - 1)))
        + attribute(_FLAGS, struct.pack("=II", _MARK_NEVER_DROP, _MARK_NEVER_DROP))
    )


def put(namespace: NetNamespace, interfaces: Sequence[str], ramp: Ramp, above: str = "parent 1:1") -> None:
    """Let the data of shaped interfaces wait in RED. Raises LabError where the kernel has none that only
    marks."""
    tc_batch(namespace, [f"qdisc replace dev {name} {above} {_PRIO}\n" for name in interfaces])
    options = text_attribute(_TCA_KIND, "red") + attribute(_TCA_OPTIONS, parameters(ramp))
    with namespace.entered(), socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_ROUTE) as route:
        for name in interfaces:
            place = TCMSG.pack(0, socket.if_nametoindex(name), RED_HANDLE, _DATA_BAND, 0)
            route.send(put_request(RTM_NEWQDISC, place + options))
            if code := refusal(route.recv(1 << 16)):
                raise LabError(f"no RED at {name}: {os.strerror(code)}.")


def kernel_has_red(namespace: NetNamespace) -> bool:
    """Whether this kernel has RED that drops nothing, which those before 5.7 do not know and ignore; tried on
    the loopback of a private namespace."""
    try:
        put(namespace, ["lo"], Ramp(1, 2, 1.0), "root")
        with namespace.entered():
            return "nodrop" in run([tool("tc"), "qdisc", "show", "dev", "lo"])
    except LabError:
        return False
    finally:
        tc_batch(namespace, ["qdisc replace dev lo root noqueue\n"])
