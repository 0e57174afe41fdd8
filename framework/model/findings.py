"""What an engine found in a run, typed: the only thing that `framework/runs/runner.py` makes a result of.

Times `t_s`, `begin_s`, `end_s` are seconds on the run's clock, which starts with the first iteration. `job`:
which job of the experiment something belongs to.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model.arrays import ArrayNoun, Float, Float32, Int64
from railweave.framework.model.events import CircuitsConnected, FaultInjected, Note, RoutesChanged
from railweave.framework.model.health import HealthSnapshot
from railweave.framework.model.routes import PathBatch, starts
from railweave.framework.model.rules import Rule
from railweave.framework.model.traffic import IterationResult, RankOutcome


@dataclass(frozen=True, eq=False, slots=True)
class CriticalPath(ArrayNoun):
    """The transfers that an iteration's time consists of, each waiting for the one before, on their routes.

    (n,) each, seconds from the iteration's start: `begin_s`, `end_s`, the time that a transfer held the
    iteration; one whose routes changed meanwhile has a part for each. `paths`: of these n pairs of GPUs.
    `link_bytes` (n_links,): wire bytes that each link carried during the iteration. `steps` (n,): how many of
    the messages of a transfer and its repetitions, of `message_bytes` (n,) of payload each, waited for
    another to land, which those behind one of their own pair do not. `last`: the paths of transfers as large
    as the last one that ended with it; None where it is repeated in turn with others.
    """

    begin_s: Float
    end_s: Float
    paths: PathBatch
    link_bytes: Float
    steps: Float = field(default_factory=lambda: np.empty(0))
    message_bytes: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    last: PathBatch | None = None


@dataclass(frozen=True, eq=False, slots=True)
class IterationRecord(ArrayNoun):
    """One iteration. `best_rates_bps`: (n_links,), the highest rate that each link had at any time during it;
    `link_bytes`: wire bytes that all links together carried meanwhile. `critical`: None where the traffic
    does not time its transfers. `own_bytes`: (n_links,), wire bytes of the job's data by its routes; empty
    where it is the only job, or a program. `alone`: no other job ran, to compare with. `rank_fairness`:
    Jain's index of the ranks' throughput, None where the traffic does not time its transfers. `landed_s`:
    seconds from the start until each message had landed; `last_s`: until the last of what each rank sent had
    landed; empty where it does not, or there are too many."""

    result: IterationResult
    begin_s: float
    end_s: float
    best_rates_bps: Float
    link_bytes: float
    job: int = 0
    critical: CriticalPath | None = None
    own_bytes: Float = field(default_factory=lambda: np.empty(0))
    alone: bool = False
    rank_fairness: float | None = None
    landed_s: Float = field(default_factory=lambda: np.empty(0))
    last_s: Float = field(default_factory=lambda: np.empty(0))


@dataclass(frozen=True, slots=True)
class HealthPoint:
    """Scores as published at `t_s`: every rail and domain by name, and the links whose score changed."""

    t_s: float
    version: int
    elements: Mapping[str, float]
    links: Mapping[str, float]
    job: int = 0


@dataclass(frozen=True, slots=True)
class RuleAgreement:
    """From `t_s` on the controller and all switches hold the same rules (`agrees`), or no longer do."""

    t_s: float
    agrees: bool


@dataclass(frozen=True, eq=False)
class HealthSamples(ArrayNoun):
    """n samples of every link: what was measured, and the scores in force after it; the arrays of health.npz.

    `t_s` (n,); `queue_bytes`, `waited_bytes` (sent since the sample before, of packets that had waited),
    `service_bps` (NaN without evidence) and `link_score` (n, n_links); `element_score` (n, n_nodes). Since
    the sample before, (n, n_links) or empty where they were not kept: `sent_bytes` on the wire,
    `sent_packets`, how many of them were `lost` (NaN if arrivals were not counted), and how long the data of
    the link was paused, `paused_s` (NaN without PFC).
    """

    t_s: Float
    queue_bytes: Float32
    waited_bytes: Float32
    service_bps: Float32
    link_score: Float32
    element_score: Float32
    sent_bytes: Float32 = field(default_factory=lambda: np.empty((0, 0), np.float32))
    sent_packets: Float32 = field(default_factory=lambda: np.empty((0, 0), np.float32))
    lost: Float32 = field(default_factory=lambda: np.empty((0, 0), np.float32))
    paused_s: Float32 = field(default_factory=lambda: np.empty((0, 0), np.float32))


@dataclass(frozen=True, eq=False)
class PathsInUse(ArrayNoun):
    """Paths of pairs of GPUs, in the order they came into use; the arrays of routes.npz. From `t_s` (n,) on
    the pair `src` -> `dst` (n,) sends the share `weight` (n,) over `links[hop_start[i]:hop_start[i + 1]]`, 0
    over none where it has no path; entries of one pair with a later time replace those before."""

    t_s: Float
    src: Int64
    dst: Int64
    weight: Float
    hop_start: Int64
    links: Int64

    @classmethod
    def of(cls, batches: Sequence[tuple[float, PathBatch]]) -> Self:
        """Of batches of paths and the times at which they came into use."""
        columns: list[list[NDArray[Any]]] = [[np.empty(0)] for _ in range(6)]
        for since_s, batch in batches:
            cut = np.diff(batch.pair_start) == 0
            pair, none = np.concatenate((batch.path_pair, np.flatnonzero(cut))), np.zeros(int(cut.sum()))
            hops = np.concatenate((np.diff(batch.hop_start), none))
            weight = np.concatenate((batch.weight, none))
            times = np.full(len(pair), since_s)
            new: list[NDArray[Any]] = [times, batch.src[pair], batch.dst[pair], weight, hops, batch.links]
            for column, values in zip(columns, new, strict=True):
                column.append(values)
        t_s, src, dst, weight, hops, links = map(np.concatenate, columns)
        integers = (values.astype(np.int64) for values in (src, dst, starts(hops), links))
        first, second, start, over = integers
        return cls(t_s, first, second, weight, start, over)


@dataclass(frozen=True, eq=False, slots=True)
class LinkTrace(ArrayNoun):
    """What links sent over time, without trains: `sent_bytes` (n, n_links), in each of n intervals that
    follow each other from 0 on; `t_s` (n,): their ends."""

    t_s: Float
    sent_bytes: Float32


@dataclass(frozen=True, eq=False, slots=True)
class LinkTotals(ArrayNoun):
    """(n_links,) each, since the fabric is up: wire bytes sent, packets sent, packets dropped at the queue,
    packets sent that did not reach the far end. `job_bytes` (n_jobs, n_links): which of the bytes sent are a
    job's, NaN of those whose packets are not counted apart; without rows where there are none. `marked`:
    packets that the link marked, NaN where it marks none; empty where no link does. `pauses`, `paused_s`: how
    often and how long the data of the link was paused (PFC); empty where none is. `trimmed`: packets that its
    full queue cut down to headers; empty where none does."""

    sent_bytes: Float
    sent_packets: Float
    drops: Float
    lost: Float
    job_bytes: Float = field(default_factory=lambda: np.empty((0, 0)))
    marked: Float = field(default_factory=lambda: np.empty(0))
    pauses: Float = field(default_factory=lambda: np.empty(0))
    paused_s: Float = field(default_factory=lambda: np.empty(0))
    trimmed: Float = field(default_factory=lambda: np.empty(0))

    def since(self, before: "LinkTotals") -> "LinkTotals":
        """What was added to `before`."""
        return LinkTotals(
            self.sent_bytes - before.sent_bytes,
            self.sent_packets - before.sent_packets,
            self.drops - before.drops,
            self.lost - before.lost,
            self.job_bytes - before.job_bytes,
            self.marked - before.marked,
            self.pauses - before.pauses,
            self.paused_s - before.paused_s,
            self.trimmed - before.trimmed,
        )


@dataclass(frozen=True, slots=True)
class EngineFacts:
    """What only the engine that carried the run knows; the defaults where an engine has no such thing.

    `versions`: of the programs it used, and its variant (`datapath`). `counts`: of what a model computed.
    `cores`: processor cores it could use,
    and `switch_cores` those of them that its switches could; `cpu_s`: processor seconds of the run by
    process; `memory_peak_bytes`: of all processes together. `rules` installed first, in `install_s`.
    `packet_latency_s`: what a packet needs, and the next one that waits for it, where links take no time.
    `token_buckets`: whether links of a model are token buckets, as those of a lab are. `flows`: whether it
    has flows where a fabric stores and forwards packets.
    `computed_in_s`: wall-clock seconds of the whole run where a model computed its times, so that nothing but
    the model shaped them; None where they were measured.
    `send_buffer_bytes`: memory that all queues of a switch share (0: no such limit), `send_buffer_used_bytes`
    the most that was used.
    """

    versions: Mapping[str, str] = field(default_factory=dict)
    counts: Mapping[str, int] = field(default_factory=dict)
    cores: int | None = None
    switch_cores: int | None = None
    cpu_s: Mapping[str, float] = field(default_factory=dict)
    memory_peak_bytes: int | None = None
    rules: int = 0
    install_s: float = 0.0
    packet_latency_s: float | None = None
    token_buckets: bool = False
    flows: bool = False
    computed_in_s: float | None = None
    send_buffer_bytes: int = 0
    send_buffer_used_bytes: int = 0


@dataclass(frozen=True, eq=False, slots=True)
class Findings(ArrayNoun):
    """Everything a run found. `rate_scale`: emulated rate over declared rate; `bring_up_s` on the wall clock,
    `run_s` on the run's.

    `truth`: the scores as they should have been, one snapshot after each fault that was done to links.
    `links`: totals at the end; `link_score` (n_links,) as last published; `measured_s` (n_links,): when the
    rate of each link was last measured, -inf where it never was. `blind_s`: since when health could not be
    measured any more, None if it could to the end. `ranks`: how those of a program ended. `failed`: why, of
    the jobs that failed while others went on. `paths`: None of a large fabric. `rules`: those in force at the
    end, without the rules that wait to be removed; empty for a large fabric, and where no switch needs any.
    `trace`: None unless the experiment asks for it.
    """

    rate_scale: float
    bring_up_s: float
    run_s: float
    iterations: tuple[IterationRecord, ...]
    health: tuple[HealthPoint, ...]
    reroutes: tuple[RoutesChanged, ...]
    faults: tuple[FaultInjected, ...]
    notes: tuple[Note, ...]
    truth: tuple[HealthSnapshot, ...]
    agreements: tuple[RuleAgreement, ...]
    samples: HealthSamples
    links: LinkTotals
    link_score: Float
    measured_s: Float
    blind_s: float | None = None
    ranks: tuple[RankOutcome, ...] = ()
    facts: EngineFacts = field(default_factory=EngineFacts)
    failed: Mapping[int, str] = field(default_factory=dict)
    paths: PathsInUse | None = None
    rules: tuple[Rule, ...] = ()
    together_s: float = 0.0
    trace: LinkTrace | None = None
    circuits: tuple[CircuitsConnected, ...] = ()
