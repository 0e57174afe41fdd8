"""Switch rules in OpenFlow's words, and what senders need to know to use them."""

from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Self

from railweave.framework.model.arrays import ArrayNoun, Float, Int64


@dataclass(frozen=True, slots=True, order=True)
class Match:
    """Fields a packet must carry; None is any. IPv4 always.

    `ipv4_src`, `ipv4_dst`: (value, mask) as 32-bit integers, any mask; `ip_dscp` 0..63; `udp_src` the
    entropy.
    """

    in_port: int | None = None
    ipv4_src: tuple[int, int] | None = None
    ipv4_dst: tuple[int, int] | None = None
    ip_dscp: int | None = None
    udp_src: int | None = None


CONTROLLER_PORT = 0xFFFFFFFD
"""OFPP_CONTROLLER: as the port of an `Output`, the head of the packet goes to the controller."""


@dataclass(frozen=True, slots=True, order=True)
class Output:
    """Send out of this port."""

    port: int


@dataclass(frozen=True, slots=True, order=True)
class SetDscp:
    """Write the version tag; the RoCEv2 ICRC masks the field."""

    value: int


Action = Output | SetDscp


@dataclass(frozen=True, slots=True)
class Rule:
    """One flow entry of switch `switch` (a node id). No actions means drop."""

    switch: int
    priority: int
    match: Match
    actions: tuple[Action, ...]

    @property
    def cookie(self) -> int:
        """64 bits that name this rule on its switch: equal rules, equal cookies, in every process."""
        text = repr((self.switch, self.priority, self.match, self.actions))
        return int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big")


@dataclass(frozen=True, slots=True)
class RuleUpdate:
    """A change of rules, in the order that loses nothing: `install` everywhere, then `switch_over` at the
    ingress, and `remove` once packets on the old paths have drained. Each phase ends with barriers."""

    version: int
    install: tuple[Rule, ...]
    switch_over: tuple[Rule, ...]
    remove: tuple[Rule, ...]


@dataclass(frozen=True, eq=False, slots=True)
class EntropyTable(ArrayNoun):
    """How senders reach each pair's paths: pair i has the paths `start[i]:start[i+1]`.

    `udp_src` (E,): UDP source port of the path; `weight` (E,): the share of the pair's packets that takes it,
    of each pair 1 together; `rate_bps` (E,): the rate of its slowest link when healthy;
    `depth` (E,): packets that the path holds while its slowest link is never idle, the sum of slowest rate
    over rate of its links; `latency_s` (E,): time along its links. The sender sizes its window by them. Pairs
    are ordered by (src, dst). Seconds here times `rate_scale` are declared ones.
    """

    version: int
    src: Int64
    dst: Int64
    start: Int64
    udp_src: Int64
    weight: Float
    rate_bps: Float
    depth: Float
    latency_s: Float
    rate_scale: float = 1.0

    def scaled(self, rate_scale: float) -> Self:
        """The same table of the fabric slowed down by `rate_scale`."""
        return replace(
            self,
            rate_bps=self.rate_bps * rate_scale,
            latency_s=self.latency_s / rate_scale,
            rate_scale=self.rate_scale * rate_scale,
        )
