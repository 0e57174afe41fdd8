"""The checks of topologies, collectives and workloads, estimators, reports and observers."""

import json
import tempfile
from collections.abc import Iterator, Mapping
from copy import deepcopy
from dataclasses import replace
from graphlib import TopologicalSorter
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import (
    ExperimentError,
    FabricError,
    InputError,
    PluginError,
    RailweaveError,
    UnsupportedFabricError,
)
from railweave.framework.experiment.plugin_calls import (
    DATA,
    OUTPUT,
    a_slow_rank,
    check_collective,
    needs_of,
    schedule_by_health,
    schedule_of,
    wants_health,
)
from railweave.framework.experiment.schema import Experiment
from railweave.framework.health.monitor import scores_of
from railweave.framework.hookspecs import Collective, Hooks, LinkState
from railweave.framework.judging.detection import asked_below
from railweave.framework.kit.check_report import Outcome, Violation
from railweave.framework.kit.soundness import scored
from railweave.framework.kit.subject import Sample, Subject, built, examples
from railweave.framework.model import (
    Fabric,
    IterationResult,
    Measurement,
    PacketFormat,
    PathBatch,
    PathCounts,
    RouteTable,
    Schedule,
)
from railweave.framework.model.capabilities import why_unserved
from railweave.framework.registry import Registers
from railweave.framework.results.directory import OWN_FILES
from railweave.framework.routing.equal_cost import ShortestPaths
from railweave.framework.runs.observers import Observers, write_reports

COMBINE: Mapping[str, np.ufunc] = {"sum": np.add, "prod": np.multiply, "max": np.maximum, "min": np.minimum}
SIZES = (4096, (1 << 16) + 64)
"""Bytes of a collective: one packet, and a size that is no power of two."""
MOST_RANKS = 64
"""Ranks, and transfers, up to which a schedule is carried out in memory."""
MOST_TRANSFERS = 20_000
SEEDS = (1, 2)
"""Of inputs and orders."""
SLOW = 0.2
"""Share of its rate of a slow element."""
PACKETS = np.array([[1000.0], [10.0], [10.0]])
"""Of a link, sent, lost and marked, at most."""
WINDOW_S = 0.06
"""A sender's window, in time at the rate of its pair (docs/architecture.md)."""


def topology(
    subject: Subject, registers: Registers, samples: list[Sample], unbuilt: list[Violation]
) -> tuple[Outcome, ...]:
    """Its examples can be built, are equal when built again, and leave no GPU without a link."""
    own_samples = [s for s in samples if s.topology == subject.name]
    wrong = [v for v in unbuilt if v.fabric.split(" (")[0] == subject.name]
    small = [s.name for s in own_samples if s.small]
    if not small and not wrong:
        why = "no example has 256 GPUs or fewer, so no plugin can be tried on it: add one"
        wrong.append(Violation("", why))
    different = [
        Violation(s.name, "built again it differs: build() must be pure")
        for s in own_samples
        if built(registers, s.topology, s.options).fabric != s.fabric
    ]
    lonely = [
        Violation(s.name, f"{s.fabric.node_name(gpu)} has no link")
        for s in own_samples
        for gpu in np.setdiff1d(np.arange(s.fabric.n_gpus), s.fabric.link_src[s.fabric.usable]).tolist()[:1]
    ]
    return (
        Outcome.of("examples", wrong, ", ".join(small)),
        Outcome.of("pure", different, "equal when built again"),
        Outcome.of("joined", lonely, "every GPU has a link"),
    )


def collective(subject: Subject, samples: list[Sample]) -> tuple[Outcome, ...]:
    """Its schedules, inputs and results fit together, and carried out in memory give the expected results."""
    wrong, different, tried = list[Violation](), list[Violation](), list[str]()
    for sample in samples:
        fabric, ranks = sample.fabric, range(sample.fabric.n_gpus)
        if len(ranks) > MOST_RANKS or why_unserved(subject.registered, fabric):
            continue
        try:
            for size in SIZES:
                instance = subject.made()
                schedule = schedule_of(subject.name, instance, fabric, ranks, size, "float32", "sum")
                check_collective(subject.name, instance, fabric, schedule.expand(), PacketFormat(), SEEDS[0])
                again = schedule_of(subject.name, subject.made(), fabric, ranks, size, "float32", "sum")
                if again != schedule:
                    why = f"asked again for {size} bytes, its schedule differs"
                    different.append(Violation(sample.name, why))
                plans = {"": schedule}
                if wants_health(instance):
                    call, slow = (subject.name, instance, fabric, ranks, schedule), a_slow_rank(fabric, 0)
                    plans[", with a slow rank"] = schedule_by_health(*call, slow)
                    if schedule_by_health(*call, slow) != plans[", with a slow rank"]:
                        why = f"asked again for {size} bytes, its schedule with a slow rank differs"
                        different.append(Violation(sample.name, why))
                for words, planned in plans.items():
                    for seed in SEEDS if planned.n_transfers <= MOST_TRANSFERS else ():
                        if count := wrong_elements(instance, planned.expand(), seed):
                            why = (
                                f"{count} elements wrong for {size} bytes{words}, transfers in the order of "
                            )
                            wrong.append(Violation(sample.name, f"{why}seed {seed}"))
        except (UnsupportedFabricError, FabricError, ExperimentError):
            pass  # refused on purpose: an odd number of GPUs, for instance
        except RailweaveError as error:
            wrong.append(Violation.of(sample.name, error))
        else:
            tried.append(sample.name)
    if not tried and not wrong:
        wrong.append(Violation("", "it serves no example of any installed topology"))
    detail = f"every element right on {len(tried)} fabrics, in two orders"
    return (
        Outcome.of("schedules and results", wrong, detail),
        Outcome.of("pure", different, "equal when asked again"),
    )


def wrong_elements(collective: Collective, schedule: Schedule, seed: int) -> int:
    """Elements, over all ranks, that differ from `expected` after the transfers ran in an order drawn by
    `seed`, each after those it waits for."""
    kind, inputs = np.dtype(schedule.dtype), collective.inputs(schedule, seed)
    buffers = np.zeros((3, schedule.n_ranks, schedule.buffer_bytes), np.uint8)  # data, output, scratch
    for rank, array in enumerate(inputs):
        buffers[DATA, rank, : array.nbytes] = array.view(np.uint8)
    for i in _order(schedule, seed):
        size, src_at, dst_at = (int(a[i]) for a in (schedule.size, schedule.src_offset, schedule.dst_offset))
        sent = buffers[schedule.src_buffer[i], schedule.src[i], src_at : src_at + size].view(kind)
        target = buffers[schedule.dst_buffer[i], schedule.dst[i], dst_at : dst_at + size].view(kind)
        with np.errstate(over="ignore"):
            target[:] = COMBINE[schedule.redop](target, sent) if schedule.reduce[i] else sent
    result = buffers[OUTPUT if (schedule.dst_buffer == OUTPUT).any() else DATA]
    expected = (collective.expected(schedule, inputs, rank) for rank in range(schedule.n_ranks))
    return sum(
        int(np.count_nonzero(row[: array.nbytes].view(kind) != array))
        for row, array in zip(result, expected, strict=True)
    )


def _order(schedule: Schedule, seed: int) -> Iterator[int]:
    """All transfers, each after those in its `after`; otherwise at random."""
    after, ranges = schedule.after.tolist(), pairwise(schedule.after_start.tolist())
    waiting = TopologicalSorter({i: after[low:high] for i, (low, high) in enumerate(ranges)})
    waiting.prepare()
    ready, draw = list[int](), np.random.default_rng(seed)
    while waiting.is_active():
        ready += waiting.get_ready()
        done = ready.pop(int(draw.integers(len(ready))))
        yield done
        waiting.done(done)


def estimator(subject: Subject, samples: list[Sample]) -> tuple[Outcome, ...]:
    """Scores of 0..1 for every link, also without evidence; equal for equal input; 1 for idle links."""
    wrong, different = list[Violation](), list[Violation]()
    small = [s for s in samples if s.small]
    for sample in small:
        for label, state in _states(sample.fabric):
            where, before = f"{sample.name}, {label}", deepcopy(state)
            try:
                first = _scores(subject, sample.fabric, state)
                again = _scores(subject, sample.fabric, state)
            except RailweaveError as error:
                wrong.append(Violation.of(where, error))
                break
            if label == "idle" and (first < 1).any():
                link = sample.fabric.link_name(int(np.argmin(first)))
                why = f"link {link} scores {first.min():g}: an idle healthy link is 1"
                wrong.append(Violation(where, why))
            if not (state == before and np.array_equal(first, again)):
                different.append(Violation(where, "asked again it differs, or it changes its input"))
    return (
        Outcome.of("scores", wrong, f"0..1 on {len(small)} fabrics, idle, busy and without evidence"),
        Outcome.of("pure", different, "equal when asked again"),
        _needs(subject, small),
        _slow_rail(subject, small),
    )


def _scores(subject: Subject, fabric: Fabric, state: LinkState) -> NDArray[np.float64]:
    return scores_of(subject.made(), fabric, state, PacketFormat(), subject.name)


def _slow_rail(subject: Subject, samples: list[Sample]) -> Outcome:
    """Links of a switch that serve a fifth of their rates score below what a published score must for such a
    fault, and links that serve all of theirs, with as much waiting before them, do not."""
    check, wrong, limit = "sees a rail at 20 %", list[Violation](), float(asked_below(np.array(SLOW)))
    try:
        needs = set(needs_of(subject.name, subject.made()))
        if needs and needs <= {"loss", "packets", "paths"}:
            return Outcome(check, "skipped", "it goes by losses alone, and a slow rail loses nothing")
        for sample in samples:
            fabric, slow = sample.fabric, _slow_links(sample.fabric)
            scores = _scores(subject, fabric, _all_busy(fabric, slow))
            where = f"{sample.name}, all links busy, those of one switch at {SLOW:.0%}"
            if (worst := scores[slow].mean()) >= limit:
                why = f"they score {worst:.2f}: below {limit:g} is asked, or the fault is never seen"
                wrong.append(Violation(where, why))
            elif (~slow).any() and (best := scores[~slow].mean()) < limit:
                wrong.append(Violation(where, f"the others score {best:.2f}: what waits is load, no fault"))
    except RailweaveError as error:
        wrong.append(Violation.of("", error))
    return Outcome.of(check, wrong, f"below {limit:g} on {len(samples)} fabrics, links as busy above it")


def _slow_links(fabric: Fabric) -> NDArray[np.bool_]:
    """(n_links,): those of the last switch that has a score; of a fabric without one, the first."""
    last = int(fabric.link_element.max())
    slow: NDArray[np.bool_] = fabric.link_element == last if last >= 0 else np.arange(fabric.n_links) == 0
    return slow


def _all_busy(fabric: Fabric, slow: NDArray[np.bool_]) -> LinkState:
    """Senders' windows wait before every link, as on the lab: 60 ms at the declared rate of a pair."""
    n, served = fabric.n_links, fabric.capacity_bps * np.where(slow, SLOW, 1.0)
    waiting = WINDOW_S * fabric.capacity_bps / 8
    packet_s = 8 * PacketFormat().full_packet_bytes / served
    no, up = np.zeros(n, bool), np.ones(n, bool)
    return LinkState(
        waiting, np.zeros(n), served, packet_s + 8 * waiting / served, up, no, no, no, np.zeros((3, n))
    )


def _needs(subject: Subject, samples: list[Sample]) -> Outcome:
    """What it says that it needs makes a difference to its scores."""
    try:
        needs = needs_of(subject.name, subject.made())
        wrong = [
            Violation("", f"its scores are the same whatever {need} is: leave that out of `needs`")
            for need in needs
            if samples and not any(_matters(subject, sample.fabric, need) for sample in samples)
        ]
    except RailweaveError as error:
        wrong, needs = [Violation.of("", error)], ()
    return Outcome.of("needs", wrong, ", ".join(needs) or "no evidence in particular")


def _matters(subject: Subject, fabric: Fabric, need: str) -> bool:
    """Whether the scores of busy links, or of idle ones, depend on this evidence."""
    (_, idle), (_, busy) = _states(fabric)
    for state, other in ((busy, idle), (idle, busy)):
        changed = replace(state, **{need: getattr(other, need)})
        scores = [_scores(subject, fabric, variant) for variant in (state, changed)]
        if not np.array_equal(scores[0], scores[1]):
            return True
    return False


def _counted(fabric: Fabric) -> PathCounts:
    """The shortest paths of some pairs, each with as many packets as links have when they are busy."""
    gpus, n = np.arange(fabric.n_gpus), fabric.n_gpus
    src, dst = np.tile(gpus, 2), np.concatenate([(gpus + 1) % n, (gpus + n // 2) % n])
    src, dst = np.unique(np.stack((src, dst))[:, src != dst], axis=1)
    paths = ShortestPaths(fabric, np.zeros(fabric.n_links, bool)).batch(src, dst)
    rng = np.random.default_rng(SEEDS[1])
    shares = rng.uniform(0, 1, (3, len(paths.weight)))
    return PathCounts(paths, shares * PACKETS)


def _states(fabric: Fabric) -> list[tuple[str, LinkState]]:
    n, rng = fabric.n_links, np.random.default_rng(SEEDS[0])
    nothing, up = np.full(n, np.nan), np.ones(n, bool)
    busy = LinkState(
        rng.uniform(0, 1e6, n), rng.uniform(0, 1, n), fabric.capacity_bps * rng.uniform(0.01, 1.0, n),
        rng.uniform(1e-6, 1.0, n), rng.random(n) > 0.1, ~up, ~up, ~up, rng.uniform(0, 1, (3, n)) * PACKETS,
        _counted(fabric),
    )  # fmt: skip
    idle = LinkState(np.zeros(n), np.zeros(n), nothing, nothing, up, ~up, ~up, ~up, np.zeros((3, n)))
    return [("idle", idle), ("busy", busy)]


def report(subject: Subject, run: Path | None) -> tuple[Outcome, ...]:
    """Writes from a finished run into an empty directory."""
    if run is None:
        return (Outcome("writes", "skipped", "give --run DIR, the directory of a finished run"),)
    try:
        result = json.loads((run / "result.json").read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"--run {run}: {error}. Give the directory of a finished run.") from error
    notes = list[str]()
    with tempfile.TemporaryDirectory(prefix="railweave-kit-") as directory:
        write_reports({subject.name: subject.made()}, result, directory, notes.append)
        files = sorted(p.name for p in Path(directory).iterdir())
    wrong = [Violation("", note) for note in notes if note.startswith(f"report {subject.name} fails")]
    wrong += [
        Violation("", f"it writes {name}, which is the run's own file. Give yours another name.")
        for name in files
        if name in OWN_FILES
    ]
    return (Outcome.of("writes", wrong, ", ".join(files) or "nothing for this run"),)


def observing(name: str, registers: Registers) -> str:
    """The holder `mine (package)` of the plugin `mine` if it has on_* hooks; else empty."""
    hooks = (hook for hook in vars(Hooks) if hook.startswith("on_"))
    observers = (plugin for hook in hooks for plugin, _ in registers.callers(hook))
    return next((plugin for plugin in observers if name in (plugin, plugin.split(" (")[0])), "")


def observer(name: str, registers: Registers) -> tuple[Outcome, ...]:
    """Every hook of the plugin is called with what a small run would give it."""
    holder = observing(name, registers)
    if not holder:
        raise PluginError(f"no plugin {name!r} has on_* hooks; see `railweave plugins`. Install it first.")
    fabric = examples(registers)[0][0].fabric
    n, health = fabric.n_links, scored(fabric, SEEDS[0])
    zero, nothing, up = np.zeros(n), np.full(n, np.nan), np.ones(n, bool)
    pairs, experiment = np.array([[0, 1]]), Experiment().document()

    def unreachable(src: Any, dst: Any) -> PathBatch:
        return PathBatch.single(src, dst, np.full((len(src), 1), -1), reachable=np.zeros(len(src), bool))

    calls: dict[str, dict[str, Any]] = {
        "on_run_start": {"experiment": experiment, "directory": None},
        "on_fabric_up": {"fabric": fabric, "endpoints": ()},
        "on_health": {
            "health": health,
            "measurement": Measurement(1.0, 0.025, zero, zero, zero, zero, zero, zero, nothing, nothing, up),
        },
        "on_reroute": {
            "table": RouteTable("check", 1, fabric.n_gpus, unreachable), "pairs": pairs, "pairs_changed": 1,
            "why": "rail:1 1.00 -> 0.20", "t_s": 1.0,
        },
        "on_iteration": {
            "result": IterationResult(0, 1.0, 0, 8, 0, 0, 4096, (1.0,), 0.1, 0.0), "t_s": 1.0, "job": 0,
        },
        "on_run_end": {"result": {"experiment": experiment, "rows": [], "iterations": []}, "directory": None},
    }  # fmt: skip
    outcomes = []
    for hook, arguments in calls.items():
        notes = list[str]()
        observers = Observers(registers, notes.append, slow_s=np.inf)
        observers.fire(hook, only=holder, **arguments)
        if holder in observers.seconds:
            wrong = [Violation("", note) for note in notes if note.startswith(f"observer {holder}")]
            outcomes.append(Outcome.of(hook, wrong, f"{1e3 * observers.seconds[holder]:.2f} ms"))
    return tuple(outcomes)
