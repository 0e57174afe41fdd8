"""What flows meet on a fabric at a time, and what a schedule becomes over it."""

from dataclasses import dataclass, field

import numpy as np

from railweave.framework.model import Fabric, PathBatch
from railweave.framework.model.arrays import ArrayNoun, Float, Int64
from railweave.framework.solver.network import Network
from railweave.framework.solver.tasks import Tasks


@dataclass(frozen=True, eq=False, slots=True)
class NetworkState(ArrayNoun):
    """`paths`: those of the pairs in use; `capacity_bps` (L,): of every link at declared rates, 0 where it is
    down. In declared seconds, what is added to a message: `switch_s` by every switch of a path, `wait_s` (L,)
    by every link besides its latency, `pair_s` (P,) by its pair; empty for nothing."""

    paths: PathBatch
    capacity_bps: Float
    switch_s: float = 0.0
    wait_s: Float = field(default_factory=lambda: np.empty(0))
    pair_s: Float = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, eq=False, slots=True)
class Quotient(ArrayNoun):
    """A schedule over one or several states, one after the other, for the solver: entries, pairs and links
    that a symmetry makes equal are one. `networks`: of each state. `entry_class` (n,), `pair_class` (P,),
    `link_class` (L,): what each entry, pair and link became, -1 for a link that nothing crosses."""

    networks: tuple[Network, ...]
    tasks: Tasks
    entry_class: Int64
    pair_class: Int64
    link_class: Int64


def network_of(fabric: Fabric, state: NetworkState) -> Network:
    """Every pair and link by itself. A flow that is spread over several paths starts after the latency of the
    longest."""
    paths, capacity_bps = state.paths, state.capacity_bps
    path_pair, hop_path = paths.path_pair, paths.hop_path
    switches = np.diff(paths.hop_start) + 1
    each_s = fabric.latency_s + state.wait_s if len(state.wait_s) else fabric.latency_s
    wires_s = np.bincount(hop_path, each_s[paths.links], len(paths.weight))
    travel_s = wires_s + state.switch_s * switches
    delay_s = np.zeros(len(paths.src))
    np.maximum.at(delay_s, path_pair, travel_s)
    if len(state.pair_s):
        delay_s += state.pair_s
    if np.all(np.diff(paths.pair_start) == 1):
        return Network(capacity_bps, paths.hop_start, paths.links, np.ones(len(paths.links)), delay_s)
    hops, place = np.unique(path_pair[hop_path] * fabric.n_links + paths.links, return_inverse=True)
    pair, link = np.divmod(hops, fabric.n_links)
    use = np.bincount(place, paths.weight[hop_path], len(hops)).astype(np.float64)
    start = np.searchsorted(pair, np.arange(len(paths.src) + 1))
    return Network(capacity_bps, start, link.astype(np.int32), use, delay_s)
