"""Shaped links: HTB with the smallest bucket, read back from the kernel after it was set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from railweave.framework.errors import LabError
from railweave.framework.lab.namespaces import NetNamespace
from railweave.framework.lab.ovs import run, tool
from railweave.framework.model.arrays import Float

BANDS = "pfifo_fast"
"""The queue behind a shaper: three bands, each first in, first out; the shaper serves the same bytes all the same."""
FIRST_BAND = "0:6"
"""A priority that goes into the first band; that of ordinary packets is 0, the second."""
SHORT_BYTES = 256

SHAPER_HANDLE = 1 << 16
"""`1:`, as the kernel numbers it."""
DELAY, DELAY_CLASS = "root handle 2:", "2:1"

CATCH_UP_S = 50e-6
"""The bucket: what a link may send at once to make up for a late timer. A larger one gives packets away after
every idle gap; a token bucket gives one packet away as it is."""


def class_words(interface: str, rate_bps: float, verb: str) -> str:
    """One `tc -batch` line for the shaping class of an interface. Rates are whole bit/s."""
    burst = max(1, int(rate_bps * CATCH_UP_S / 8))
    return (
        f"class {verb} dev {interface} parent 1: classid 1:1 htb rate {round(rate_bps)}bit "
        f"ceil {round(rate_bps)}bit burst {burst} cburst {burst} quantum 10000\n"
    )


def shape(namespace: NetNamespace, links: Sequence[tuple[str, float, float]]) -> None:
    """Shape interfaces of one namespace: (interface, rate in bit/s, latency in s; a latency needs netem)."""
    lines = []
    for interface, rate_bps, latency_s in links:
        above = "root"
        if latency_s > 0:
            # before the shaper, so that what travels is not among what waits
            lines.append(f"qdisc add dev {interface} {DELAY} {_delay(latency_s)}\n")
            above = f"parent {DELAY_CLASS}"
        lines.append(f"qdisc add dev {interface} {above} handle 1: htb default 1\n")
        lines.append(class_words(interface, rate_bps, "add"))
        lines.append(f"qdisc add dev {interface} parent 1:1 handle 10: {BANDS}\n")
    tc_batch(namespace, lines)


def short_first(namespace: NetNamespace, interfaces: Sequence[str]) -> bool:
    """Let short packets pass those that wait at shaped interfaces; False where this kernel cannot.

    Acknowledgements have a class of their own on real fabrics. Behind the data of every link on their way back they
    held up the long paths of an optical ring: steps took up to 1.5 times what their links need (16 GPUs).
    """
    devices = ", ".join(f'"{interface}"' for interface in interfaces)
    hook = f"type filter hook egress devices = {{ {devices} }} priority -10"
    rule = f"meta length < {SHORT_BYTES} meta priority set {FIRST_BAND}"
    with namespace.entered():
        try:
            run(
                [tool("nft"), "-f", "-"],
                given=f"table netdev short {{ chain out {{\n{hook}\n{rule}\n}}\n}}\n",
            )
        except LabError:
            return False
    return True


def _delay(latency_s: float) -> str:
    return f"netem delay {latency_s * 1e6:.0f}us limit 10000"


def travel(namespace: NetNamespace, links: Iterable[tuple[str, float, float, float]]) -> None:
    """Set what happens on the way along interfaces with a latency: (interface, latency in s, share of the packets that
    get lost, share that skips the latency)."""
    lines = []
    for name, latency_s, lost, skips in links:
        some = (f" loss {lost * 100:.6g}%" if lost > 0 else "") + (
            f" reorder {skips * 100:.6g}%" if skips > 0 else ""
        )
        lines.append(f"qdisc change dev {name} {DELAY} {_delay(latency_s)}{some}\n")
    tc_batch(namespace, lines)


def reshape(namespace: NetNamespace, links: Iterable[tuple[str, float]]) -> None:
    """Change the rates of shaped interfaces; packets that wait stay in their queues."""
    tc_batch(namespace, [class_words(interface, rate_bps, "change") for interface, rate_bps in links])


def tc_batch(namespace: NetNamespace, lines: Iterable[str]) -> None:
    with namespace.entered():
        run([tool("tc"), "-batch", "-"], given="".join(lines))


def rates_in_force(namespace: NetNamespace, interfaces: Sequence[str]) -> Float:
    """bit/s that the kernel says it shapes each interface to; NaN where there is no shaper."""
    with namespace.entered():
        listing = run([tool("tc"), "-batch", "-"], given="".join(f"class show dev {i}\n" for i in interfaces))
    rates = np.full(len(interfaces), np.nan)
    shaped = [line.split() for line in listing.splitlines() if line.startswith("class htb 1:1 ")]
    if len(shaped) == len(interfaces):
        for i, words in enumerate(shaped):
            rates[i] = _bits(words[words.index("rate") + 1])
    return rates


def _bits(text: str) -> float:
    for unit, factor in (("Tbit", 1e12), ("Gbit", 1e9), ("Mbit", 1e6), ("Kbit", 1e3), ("bit", 1.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise LabError(f"tc printed the rate {text!r}, which is in no known unit.")


def verify(namespace: NetNamespace, links: Sequence[tuple[str, float]]) -> None:
    """LabError naming the first interface whose rate in force is not the rate asked."""
    in_force = rates_in_force(namespace, [interface for interface, _ in links])
    for (interface, asked), found in zip(links, in_force, strict=True):
        if not abs(found - round(asked)) <= 8:  # the kernel keeps whole bytes per second
            raise LabError(
                f"{interface} is shaped to {found:g} bit/s, asked were {asked:g}. "
                "An unshaped link is never reported as shaped; run `railweave doctor`."
            )


def kernel_has_netem(namespace: NetNamespace) -> bool:
    """Whether this kernel can delay packets; tried on the loopback of a private namespace."""
    try:
        tc_batch(namespace, ["qdisc add dev lo root netem delay 1us\n", "qdisc del dev lo root\n"])
    except LabError:
        return False
    return True
