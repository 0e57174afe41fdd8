"""What a result consists of: nouns, as documented in docs/results.md.

Times that end in `_us` or `_s` are emulated unless their name says declared; GB/s are declared, 1e9 bytes
each. `job`: which job of the experiment a figure belongs to.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from railweave.framework.parameters.units import time as time_text
from railweave.framework.results.percentiles import (
    BusbwFigures,
    MessageFigures,
    QueueFigures,
    ResponseFigures,
    SlowdownFigures,
    TimeFigures,
)

Verdict = Literal["pass", "degraded", "invalid"]


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The verdict of a run. `reasons`: of a `pass`, only what was not checked."""

    verdict: Verdict
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Accuracy:
    """Over all samples and all that is judged: `precision`, the share of what was reported degraded that was;
    `recall`, the share of what was degraded that was reported. None where nothing was reported, or nothing
    degraded."""

    precision: float | None
    recall: float | None


@dataclass(frozen=True, slots=True)
class PauseFigures:
    """Pauses (PFC): how many, of how many `links`, declared microseconds of all links together, and `depth`:
    how many paused links waited for each other at most. In a summary counts and times are sums, the others
    those of the iteration with most."""

    pauses: int
    links: int
    paused_us: float
    depth: int

    def __str__(self) -> str:
        if not self.pauses:
            return "none"
        took = time_text(self.paused_us * 1e-6)
        return f"{self.pauses} of {self.links} links, {took} declared in all, {self.depth} deep"


@dataclass(frozen=True, slots=True)
class KeyFigures:
    """Of a whole run; None where there is nothing to take one from. `retransmission_rate`: packets sent again
    over packets sent. `queue_p95_bytes`: in 95 % of the time that was sampled no queue of the fabric held
    more; `queue_max_bytes`: never. `failover_p99_s`: within it 99 % of 100 faults or more that were answered
    were, by rules in use. `link_fairness`: Jain's index of the bytes that links of one kind carried.

    `jct_ratio`: mean time of an iteration of the largest size over its physical limit. `max_mean_ratio`:
    bytes of the most loaded link over the mean, for each kind of links. `out_of_order_rate`: packets that
    arrived behind a later one of their pair, over packets sent; `marked_rate`: packets that came marked.
    `detection`, `convergence`: of the faults that the scores showed, and that routes in use answered.
    `interference`: the largest of all jobs. `queues`: of the links of each kind."""

    retransmission_rate: float | None = None
    queue_p95_bytes: float | None = None
    queue_max_bytes: float | None = None
    failover_p99_s: float | None = None
    link_fairness: Mapping[str, float] = field(default_factory=dict)
    jct_ratio: float | None = None
    max_mean_ratio: Mapping[str, float] = field(default_factory=dict)
    out_of_order_rate: float | None = None
    marked_rate: float | None = None
    detection: ResponseFigures | None = None
    convergence: ResponseFigures | None = None
    interference: float | None = None
    queues: Mapping[str, QueueFigures] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FabricFigures:
    """`switches`: domains, rails, spines; `links`: directed; `rate_scale`: emulated rate over declared rate;
    `ranks`: how many of the GPUs take part, None: all; `packet_latency_us`: what the emulator adds to a
    packet from a GPU to the next, emulated, None where nothing was measured."""

    kind: str
    gpus: int
    switches: int
    links: int
    rate_scale: float
    ranks: int | None = None
    packet_latency_us: float | None = None


@dataclass(frozen=True, slots=True)
class ControllerFigures:
    """`rules`: how many the first intent holds; `install_s`: until the last switch confirmed it."""

    name: str
    rules: int
    install_s: float


@dataclass(frozen=True, slots=True)
class Row:
    """One iteration, or the summary of those of one size (`iteration` None): an nccl-tests row and what it is
    judged by.

    `t_s` its start on the run's clock. `redop` is none where nothing is reduced, `root` -1 where there is
    none. `netbw_gbs`: what all links of the fabric carried, headers counted, over the declared time.
    `bound_us`: the physical limit of the fabric as it was; `model_us`: the algorithm's closed form on the
    healthy fabric; None where there is none. Ratios are limit over measured. `wrong` of `compared` elements;
    None for a program, of which nothing is compared, and where no data was carried; then `retransmitted` and
    `duplicates` are None, too. `compute_us`: for how long of `time_us` what it consists of was computations;
    None where the schedule has none. `predicted_us`: what a model says of `time_us`, if it was asked.
    `rank_fairness`: Jain's index of the ranks' throughput; `busbw_figures`, `time_figures`: of a summary.
    `message_figures`: of up to 4,096 messages an iteration, where they are timed. `pause_figures`: None where
    links are not paused.
    `out_of_order`: packets that arrived behind a later one of their pair, None where there are no packets;
    `reorder_depth`: by how many numbers at most; `trimmed`: packets that lost their payload in full queues;
    `slowdown`: of messages, first of all sizes, then by size; None where an engine does not count or time
    them. `packet_delay_us`: what store and forward of packets would add to `time_us`, where an engine
    computes flows; None where it has packets.
    """

    iteration: int | None
    t_s: float
    size_bytes: int
    count: int
    type: str
    redop: str
    time_us: float
    declared_time_us: float
    algbw_gbs: float
    busbw_gbs: float | None
    netbw_gbs: float
    wrong: int | None
    bound_us: float | None
    ratio_to_bound: float | None
    model_us: float | None
    ratio_to_model: float | None
    packets: int
    retransmitted: int | None
    duplicates: int | None
    phase_us: tuple[float, ...]
    root: int = -1
    job: int = 0
    compared: int | None = None
    wrong_icrc: int = 0
    marked: int | None = None
    cnps: int | None = None
    compute_us: float | None = None
    predicted_us: float | None = None
    rank_fairness: float | None = None
    busbw_figures: BusbwFigures | None = None
    time_figures: TimeFigures | None = None
    out_of_order: int | None = None
    message_figures: MessageFigures | None = None
    reorder_depth: int | None = None
    trimmed: int | None = None
    slowdown: tuple[SlowdownFigures, ...] | None = None
    pause_figures: PauseFigures | None = None
    packet_delay_us: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """Iterations of one part of the run; figures are None when there is none, or when their sizes differ.

    `declared_us`: the median at declared rates; `busbw_gbs`: the median of their busbw; `ratio`: the median
    time over that of the iterations before the first fault, None of these themselves.
    """

    iterations: tuple[int, ...]
    median_us: float | None
    min_us: float | None
    max_us: float | None
    declared_us: float | None = None
    busbw_gbs: float | None = None
    ratio: float | None = None


@dataclass(frozen=True, slots=True)
class Groups:
    """Iterations before the first fault, during it, and after the answer to it (a reroute or a repair).

    `speedup`: median during over median after; None when either is empty.
    """

    before: Group
    during: Group
    after: Group
    speedup: float | None
    job: int = 0


@dataclass(frozen=True, slots=True)
class LinkFigures:
    """One directed link over the whole run. `utilisation`: bytes sent over what its healthy rate allows.
    `age_s`: how long before the end its rate was last measured; None: never, and its score says nothing.
    `loss`: the share of the packets sent that did not reach its far end. `job_bytes`: of several jobs, the
    data of each by its routes; None of a program. `pauses`: how often its data was paused, `paused`: for
    which share of the run, 0..1; None where no link is."""

    name: str
    kind: str
    bytes: int
    drops: int
    utilisation: float
    h_score: float
    age_s: float | None = None
    loss: float = 0.0
    job_bytes: tuple[int | None, ...] = ()
    marked: int | None = None
    pauses: int | None = None
    paused: float | None = None
    trimmed: int | None = None


@dataclass(frozen=True, slots=True)
class ElementFigures:
    """One switch over the whole run. `links`: how many make up its score; `bytes` they sent together;
    `utilisation`: of the busiest of them; `h_score` at the end."""

    name: str
    links: int
    bytes: int
    utilisation: float
    h_score: float


@dataclass(frozen=True, slots=True)
class CircuitFigures:
    """Circuits that a fault connected anew: `circuits` on `switches` OCS, in words what is connected.

    `connect_s`: declared seconds that this takes; `connected_s`: until light passed, on the run's clock; None
    where that never came.
    """

    summary: str
    circuits: int
    switches: int
    connect_s: float
    connected_s: float | None = None


@dataclass(frozen=True, slots=True)
class FaultFigures:
    """A fault as written, and when it fired (None: never); `links`: how many it touched.

    Seconds after it, None where that did not come: `detected_s`, until the published scores showed it (for a
    killed process: until its end was seen); `recovered_s`, until routes that answer it were in use (all rules
    in place); `published_s`, until the score of what it hit was published below the level that the truth asks
    (detection.py, `asked_below`); `allowance_s`, until it has to be, of a `degrade` after which enough
    packets waited. `visible`: whether the ground truth of any judged score changed by more than the margin;
    None where that is not known. `link_scores`: of the links it touched, as last published before the next
    fault of links. `circuits`: the ones that it connected anew.
    """

    text: str
    verb: str
    target: str
    t_s: float | None
    links: int
    detected_s: float | None = None
    recovered_s: float | None = None
    visible: bool | None = None
    job: int = 0
    published_s: float | None = None
    link_scores: Mapping[str, float] = field(default_factory=dict)
    allowance_s: float | None = None
    circuits: CircuitFigures | None = None


@dataclass(frozen=True, slots=True)
class RerouteFigures:
    """Changed routes; `t_s` is when the last switch had confirmed them."""

    t_s: float
    version: int
    pairs_changed: int
    why: str
    job: int = 0


@dataclass(frozen=True, slots=True)
class Bottleneck:
    """What held an iteration, or all together (`iteration` None): the `share` of the time for which `element`
    did, on the chain of transfers that the time consists of.

    `element` None where the link belongs to no switch, or is slow and the other links of its switch are not;
    `link`: the one of its links that held most, and the `nic` whose cable that is, if it is one; `rank`:
    whose link that is, or who sent most over it where it joins two switches. `balanced`: no element was
    slower or busier than its like by 10 % or more, and this is only the one that the chain passed most.
    `spared`: how many equal ways carried nothing: elements that could have carried what it did, or parallel
    cables.
    """

    iteration: int | None
    element: str | None
    link: str
    rank: int
    share: float
    balanced: bool
    job: int = 0
    nic: str | None = None
    spared: int = 0

    @property
    def name(self) -> str:
        """What users call it: `rail:1`, or `g2.1->r1 (nic:2.1)`."""
        return self.element or (f"{self.link} ({self.nic})" if self.nic else self.link)


@dataclass(frozen=True, slots=True)
class JobFigures:
    """One of several jobs. `ranks`: the GPU of each of its ranks. `error`: why it failed, None if it did not.

    `alone_us` and `together_us`: medians of the iterations that it ran by itself, and of those for at least
    half of whose time an iteration of another job was under way, before the first fault if there are any;
    `interference`: together over alone. None where there is nothing to take it from. `element_bytes`: what
    its data put on the links of each switch over the whole run (on links of none, by their names), None of a
    program.
    """

    job: int
    name: str
    ranks: tuple[str, ...]
    iterations: Groups
    fidelity: Fidelity
    alone_us: float | None
    together_us: float | None
    interference: float | None
    element_bytes: Mapping[str, int] | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class WallTimes:
    """Wall-clock seconds; `tear_down_s` None while the lab still stands."""

    bring_up_s: float
    run_s: float
    tear_down_s: float | None = None
