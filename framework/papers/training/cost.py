"""What a switched network costs: any-to-any Clos against isolated rails."""

import itertools
from dataclasses import dataclass
from math import inf

from railweave.framework.errors import ExperimentError

PORT_DOLLARS = 748.0
TRANSCEIVER_DOLLARS = 374.0
"""Of a switch port and of a transceiver, 400 Gb/s. Source: section 6.5."""


@dataclass(frozen=True, slots=True)
class NetworkCost:
    """Parts of a network for N GPUs; `tiers` of each of its (equal) Clos networks."""

    tiers: int
    switches: int
    transceivers: int
    dollars: float


@dataclass(frozen=True, slots=True)
class CostComparison:
    """An any-to-any network and rails of `per_rail` GPUs, for the same N GPUs."""

    gpus: int
    domain: int
    radix: int
    any_to_any: NetworkCost
    rail_only: NetworkCost

    @property
    def per_rail(self) -> int:
        return self.gpus // self.domain

    @property
    def cut(self) -> float:
        """The share of dollars that rail-only saves."""
        return 1 - self.rail_only.dollars / self.any_to_any.dollars


def tiers(gpus: int, radix: int) -> int:
    """Tiers of the smallest full-bisection Clos: least T with 2 (k/2)^T >= n; one switch for n <= k."""
    if radix < 2 or radix % 2:
        raise ExperimentError(f"switches of {radix} ports: a Clos network needs an even number, 2 or more.")
    if radix == 2 and gpus > 2:
        raise ExperimentError(
            f"switches of 2 ports cannot join {gpus} GPUs; choose switches with more ports."
        )
    return next(count for count in itertools.count(1) if 2 * (radix // 2) ** count >= gpus)


def clos(gpus: int, height: int, radix: int, port_dollars: float, transceiver_dollars: float) -> NetworkCost:
    """(2T-1) n ports, thus (2T-1) n / k switches, rounded up; 2 T n transceivers, one at each end of every
    link, those to the GPUs included."""
    if not (0 <= port_dollars < inf and 0 <= transceiver_dollars < inf):
        raise ExperimentError("prices must be 0 or more.")
    switches, transceivers = -(-(2 * height - 1) * gpus // radix), 2 * height * gpus
    dollars = switches * radix * port_dollars + transceivers * transceiver_dollars
    return NetworkCost(height, switches, transceivers, dollars)


def compare(
    gpus: int,
    domain: int,
    radix: int,
    *,
    port_dollars: float = PORT_DOLLARS,
    transceiver_dollars: float = TRANSCEIVER_DOLLARS,
) -> CostComparison:
    """N GPUs in HB domains of K with switches of k ports. Source: table 2; the rule was derived from its
    numbers.

    A rail has N/K GPUs. Rails smaller than a switch share one, so switches are counted over all N GPUs.
    Raises ExperimentError for impossible numbers.
    """
    if domain < 1 or gpus < 1 or gpus % domain:
        raise ExperimentError(
            f"{gpus} GPUs do not fill HB domains of {domain}. Choose a multiple of the domain."
        )
    prices = port_dollars, transceiver_dollars
    if sum(prices) <= 0:
        raise ExperimentError("both prices are 0; one of them must be positive.")
    return CostComparison(
        gpus,
        domain,
        radix,
        any_to_any=clos(gpus, tiers(gpus, radix), radix, *prices),
        rail_only=clos(gpus, tiers(gpus // domain, radix), radix, *prices),
    )
