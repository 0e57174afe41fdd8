"""How what is measured becomes scores."""

from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from railweave.framework.hookspecs.configurable import Configurable
from railweave.framework.model import Fabric, PacketFormat, PathCounts
from railweave.framework.model.arrays import ArrayNoun

EVIDENCE = ("queue_bytes", "loss", "service_bps", "probe_s", "packets", "paths")
"""What estimators may need of a LinkState: not every engine or source gives all of it."""
MOST_PACKETS = 1 << 14
"""Packets of a link, or of a path, that its counts go back, or twice as many."""


@dataclass(frozen=True, eq=False)
class LinkState(ArrayNoun):
    """What health keeps of every link between measurements, as arrays of n_links; the input of estimators.

    `queue_bytes` smoothed; `loss` the share of packets lost on the way; `service_bps` the last rate seen
    while backlogged, NaN before any; `probe_s` the last probe delay, NaN before any; `up`; `unknown` where a
    link was not measured since another one of its switch turned out slow: until it is, it counts for nothing;
    `outdated` where it was, by what began before that, and nothing waits that would say more; `doubted` where
    a link comes and goes, so that what it was last says little.

    `packets` (3, n_links): sent ones whose fate is known, the lost ones among them, and marked ones (ECN);
    from the start, but that of more than MOST_PACKETS half the weight goes on.

    `paths`: the same by pair and path, as senders know it, since a pair took its paths. Of no pair where the
    estimator does not want them, or the engine has no packets.
    """

    queue_bytes: NDArray[np.float64]
    loss: NDArray[np.float64]
    service_bps: NDArray[np.float64]
    probe_s: NDArray[np.float64]
    up: NDArray[np.bool_]
    unknown: NDArray[np.bool_]
    outdated: NDArray[np.bool_]
    doubted: NDArray[np.bool_]
    packets: NDArray[np.float64] = field(default_factory=lambda: np.zeros((3, 0)))
    paths: PathCounts = field(default_factory=PathCounts.none)


class Estimator(Configurable, Protocol):
    """Turns what is known of links into raw h-scores; smoothing and publishing are framework/health's.

    `wants_paths`: senders are to count by path, for the `paths` of a LinkState, as they do for one that
    `needs` them (NeedsEvidence).
    """

    wants_paths: bool = False

    @abstractmethod
    def scores(self, fabric: Fabric, state: LinkState, packet: PacketFormat) -> NDArray[np.float64]:
        """(n_links,), each in 0..1; anything else is refused. Pure. `fabric` has emulated (scaled) rates."""


@runtime_checkable
class NeedsEvidence(Protocol):
    """What an estimator has besides `scores` if it cannot do without some evidence (EVIDENCE). Optional: an
    experiment whose engine or `measure` does not give it is refused; others get NaN, or 0, without a word."""

    needs: tuple[str, ...]


@runtime_checkable
class CountsPaths(Protocol):
    """What a transport has besides if its senders can say what becomes of the packets of each path. Optional:
    without it estimators that need `paths` are refused, and others see none."""

    def count_paths(self) -> None:
        """Report PathsCounted from now on, some times a second and before IterationFinished; called before
        `start`."""
        ...
