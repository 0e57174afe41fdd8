"""Shaped links: HTB with a minimal bucket, read back from the kernel after it was set."""

from collections.abc import Iterable, Sequence
from math import nan

from railweave.framework.errors import ExperimentError, LabError
from railweave.framework.model.addressing import ROCE_PORT, TRAIN_SINK, ipv4_text
from railweave.framework.parameters.units import rate as rate_text
from railweave.framework.processes.namespaces import NetNamespace
from railweave.framework.processes.programs import run, tool

BANDS = "pfifo_fast"
"""The queue under a shaper: three bands, each first in, first out. The shaper serves the same bytes with or
without it."""
FIRST_BAND, LAST_BAND = "0:6", "0:2"
"""Priorities that select the first and the third band; ordinary packets have priority 0, for the second."""
SHORT_BYTES = 256
"""Bytes of a packet below which it takes the first band: acknowledgements, not data."""
ACKNOWLEDGE = 0x11
"""BTH opcode of an acknowledgement (InfiniBand Architecture Specification, volume 1, 9.2.1)."""
DATA = f"udp dport {ROCE_PORT} @th,64,8 != {ACKNOWLEDGE:#x}"
"""What nftables knows RoCEv2 data by; the opcode follows UDP's 8 bytes."""
LINK_MTU = 9000
"""Larger than every packet of a run (path MTU 4096 and headers); that of programs on hosts."""
QUEUE_PACKETS = 1000
"""Packets that the queue of a link holds (txqueuelen, the kernel's default); the rest of a longer train is
lost."""
DEVICES_PER_CHAIN = 128
"""The kernel refuses the 256th device of one nftables chain (NFT_NETDEVICE_MAX,
net/netfilter/nf_tables_api.c)."""

SHAPER_HANDLE = 1 << 16
"""`1:`, as the kernel numbers it."""
DELAY, DELAY_CLASS = "root handle 2:", "2:1"

CATCH_UP_S = 50e-6
"""The bucket: what a link may send at once to make up for a late timer. A larger one would add burst credit
after every idle gap; any token bucket lets one packet go early."""

LOWEST_BPS, HIGHEST_BPS = 8.0, 600e12
"""Rates that HTB takes: whole bytes per second, and a bucket that fits into 32 bits."""


def check_rate(link: str, rate_bps: float) -> None:
    """ExperimentError for a rate that HTB cannot shape to, naming `link`."""
    if not LOWEST_BPS <= rate_bps <= HIGHEST_BPS:
        raise ExperimentError(
            f"link {link} would be shaped to {rate_text(rate_bps)}; the kernel's shaper (HTB) takes "
            f"{rate_text(LOWEST_BPS)} to {rate_text(HIGHEST_BPS)}. Change `rate_scale`, or leave it at auto."
        )


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
            # above the shaper, so packets in flight are not counted as queued
            lines.append(f"qdisc add dev {interface} {DELAY} {_delay(latency_s)}\n")
            above = f"parent {DELAY_CLASS}"
        lines += [
            f"qdisc add dev {interface} {above} handle 1: htb default 1\n",
            class_words(interface, rate_bps, "add"),
            f"qdisc add dev {interface} parent 1:1 handle 10: {BANDS}\n",
        ]
    tc_batch(namespace, lines)


def put_in_bands(namespace: NetNamespace, interfaces: Sequence[str]) -> str:
    """Let short packets overtake what is queued at shaped interfaces, but for the data of RoCEv2, and let
    untimed trains wait for everything else; the reason where the kernel refuses, else "".

    Acknowledgements have a traffic class of their own on real fabrics. Queued behind the data of every link
    on the return path, they slowed the long paths of an optical ring: steps took up to 1.5 times what their
    links need (16 GPUs). A message's last packet may be as short, and must not overtake those before it:
    senders would take them for lost. A train on a slow link delayed an iteration's data by seconds.
    """
    train = f"ip daddr {ipv4_text(TRAIN_SINK)} udp sport {ROCE_PORT}"  # timed ones have their marks there
    rules = (
        f"{train} meta priority set {LAST_BAND} accept\n"
        f"meta length >= {SHORT_BYTES} accept\n{DATA} accept\nmeta priority set {FIRST_BAND}"
    )
    chains = ""
    for first in range(0, len(interfaces), DEVICES_PER_CHAIN):
        devices = ", ".join(f'"{interface}"' for interface in interfaces[first : first + DEVICES_PER_CHAIN])
        hook = f"type filter hook egress devices = {{ {devices} }} priority -10"
        chains += f"chain out{first} {{\n{hook}\n{rules}\n}}\n"
    with namespace.entered():
        try:
            run([tool("nft"), "-f", "-"], stdin=f"table netdev bands {{\n{chains}}}\n")
        except LabError as error:
            if "Operation not supported" in str(error):
                return "this kernel has no nftables at the egress of a device (CONFIG_NETFILTER_EGRESS)"
            return str(error).rstrip(".")
    return ""


def unshape(namespace: NetNamespace, interfaces: Sequence[str]) -> None:
    """Remove what `shape` and `put_in_bands` gave interfaces, with what they have counted."""
    tc_batch(namespace, [f"qdisc del dev {interface} root\n" for interface in interfaces])
    with namespace.entered():
        run([tool("nft"), "-f", "-"], stdin="table netdev bands\ndelete table netdev bands\n")


def _delay(latency_s: float) -> str:
    return f"netem delay {latency_s * 1e6:.0f}us limit 10000"


def change_netem(namespace: NetNamespace, links: Iterable[tuple[str, float, float]]) -> None:
    """Set the reordering of interfaces that have a latency: (interface, latency in s, share of the packets
    that skips it)."""
    lines = []
    for name, latency_s, skips in links:
        reorder = f" reorder {skips * 100:.6g}%" if skips > 0 else ""
        lines.append(f"qdisc change dev {name} {DELAY} {_delay(latency_s)}{reorder}\n")
    tc_batch(namespace, lines)


def reshape(namespace: NetNamespace, links: Iterable[tuple[str, float]]) -> None:
    """Change the rates of shaped interfaces; queued packets stay in their queues."""
    tc_batch(namespace, [class_words(interface, rate_bps, "change") for interface, rate_bps in links])


def tc_batch(namespace: NetNamespace, lines: Iterable[str]) -> None:
    with namespace.entered():
        run([tool("tc"), "-batch", "-"], stdin="".join(lines))


def rates_in_force(namespace: NetNamespace, interfaces: Sequence[str]) -> list[float]:
    """bit/s to which the kernel shapes each interface, as tc prints it; all NaN if one has no shaper."""
    with namespace.entered():
        listing = run([tool("tc"), "-batch", "-"], stdin="".join(f"class show dev {i}\n" for i in interfaces))
    shaped = [line.split() for line in listing.splitlines() if line.startswith("class htb 1:1 ")]
    if len(shaped) < len(interfaces):
        return [nan] * len(interfaces)
    return [_bits(words[words.index("rate") + 1]) for words in shaped]


def _bits(text: str) -> float:
    for unit, factor in (("Tbit", 1e12), ("Gbit", 1e9), ("Mbit", 1e6), ("Kbit", 1e3), ("bit", 1.0)):
        if text.endswith(unit):
            return float(text.removesuffix(unit)) * factor
    raise LabError(f"tc printed the rate {text!r}, which is in no known unit.")


def verify(namespace: NetNamespace, links: Sequence[tuple[str, float]]) -> None:
    """LabError naming the first interface whose rate in force differs from the rate asked for.

    The kernel keeps whole bytes per second, and tc cuts rates to four digits or more when it prints them.
    """
    in_force = rates_in_force(namespace, [interface for interface, _ in links])
    for (interface, wanted_bps), rate_bps in zip(links, in_force, strict=True):
        if not abs(rate_bps - round(wanted_bps)) <= max(8.0, wanted_bps / 1000):
            raise LabError(
                f"{interface} is shaped to {rate_bps:g} bit/s instead of {wanted_bps:g}. "
                "An unshaped link is never reported as shaped; run `railweave doctor`."
            )


def kernel_has_netem(namespace: NetNamespace) -> bool:
    """Whether this kernel can delay packets; tried on the loopback of a private namespace."""
    try:
        tc_batch(namespace, ["qdisc add dev lo root netem delay 1us\n", "qdisc del dev lo root\n"])
    except LabError:
        return False
    return True
