"""Components of servers and switches, and what joins two of them."""

from dataclasses import dataclass
from typing import NamedTuple


class Component(NamedTuple):
    """A component of the instance of that number; `place` inside its device is empty for a whole device."""

    instance: str
    number: int
    place: tuple[tuple[str, int], ...]

    @property
    def name(self) -> str:
        return ".".join([self.instance, str(self.number), *(f"{n}.{i}" for n, i in self.place)])

    @property
    def box(self) -> "Component":
        return Component(self.instance, self.number, ())


@dataclass(frozen=True, slots=True)
class Joint:
    """What joins two components; 0 where the rate is not known."""

    link: str
    rate_bps: float = 0.0
    latency_s: float = 0.0

    def after(self, other: "Joint") -> "Joint":
        """Both in a row: the slower rate, the sum of the latencies, this one's name."""
        rates = [rate for rate in (self.rate_bps, other.rate_bps) if rate]
        return Joint(self.link, min(rates, default=0.0), self.latency_s + other.latency_s)


Edge = tuple[Component, Component, Joint]
