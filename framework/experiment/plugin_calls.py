"""Calls plugins before a run: what they raise or answer wrongly is refused with plugin, file and line."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import isfinite
from typing import Any

import numpy as np
from numpy.typing import NDArray

from railweave.framework.errors import FabricError, PluginError, blaming, defined_at, type_name
from railweave.framework.hookspecs import (
    EVIDENCE,
    Collective,
    Estimator,
    NeedsEvidence,
    NotesOfTraffic,
    PathChooser,
    Topology,
)
from railweave.framework.model import Fabric, HealthSnapshot, PacketFormat, Schedule
from railweave.framework.model.arrays import Bool, Int32, Int64
from railweave.framework.parameters import Value

DATA, OUTPUT = 0, 1
"""Numbers of buffers (model/schedule.py)."""
MOST_BYTES = 1 << 28
"""All ranks' inputs together, at most, of a collective that is tried before a run."""


TRIED_PACKETS, TRIED_EVERY_PS = 16, 1_000_000
"""Packets with which a chooser is tried, besides two for each path, and declared picoseconds between them."""


def configured(kind: str, name: str, registered: Any, options: Mapping[str, Value]) -> Any:
    """The object to use with these options. Raises PluginError where `configured` fails or gives None."""
    with blaming(f"{kind} {name}: configured"):
        made = registered.configured(options)
    if made is None:
        raise PluginError(f"{kind} {name}: configured() at {defined_at(registered.configured)} returns None.")
    return made


def fabric_of(name: str, topology: Topology, params: Mapping[str, Value]) -> Fabric:
    """The fabric of a topology, with its `axis_names`, if it has any, and if `lossless`, that trait.

    Raises PluginError where `build` fails or gives something else, and what `build` refuses on purpose.
    """
    with blaming(f"topology {name}: build"):
        fabric = topology.build(params)
    if not isinstance(fabric, Fabric):
        raise PluginError(
            f"topology {name}: build() at {defined_at(topology.build)} returns {type_name(fabric)}, not a "
            "Fabric. FabricBuilder makes one."
        )
    axes = fabric.groups[0].shape
    if topology.axis_names and len(topology.axis_names) < len(axes):
        raise FabricError(f"topology {name}: {len(axes)} axes, but axis_names {topology.axis_names}.")
    traits = {*fabric.traits, "lossless"} if topology.lossless else fabric.traits
    names = tuple(topology.axis_names)[: len(axes)] or fabric.axis_names
    return replace(fabric, axis_names=names, traits=tuple(sorted(traits)))


def needs_of(name: str, estimator: Estimator) -> tuple[str, ...]:
    """The evidence that an estimator cannot do without. Raises PluginError for what is none."""
    needs = estimator.needs if isinstance(estimator, NeedsEvidence) else ()
    if isinstance(needs, tuple) and all(word in EVIDENCE for word in needs):
        return needs
    raise PluginError(
        f"estimator {name}: needs = {needs!r} at {defined_at(estimator)}; it takes a tuple of "
        f"{', '.join(EVIDENCE)}, or () for none."
    )


def wants_paths(estimator: Estimator) -> bool:
    """Whether an estimator is to see counts by path, wanted or needed; a stranger's need not say."""
    return bool(getattr(estimator, "wants_paths", False)) or "paths" in getattr(estimator, "needs", ())


def wants_health(collective: Collective) -> bool:
    """Whether `schedule` takes the health of links; a stranger's need not say."""
    return bool(getattr(collective, "wants_health", False))


def schedule_of(
    name: str,
    collective: Collective,
    fabric: Fabric,
    ranks: Sequence[int],
    size: int,
    dtype: str,
    redop: str,
    health: HealthSnapshot | None = None,
) -> Schedule:
    """The schedule of a collective or workload; `health`: of the moment, for one that wants it. Raises
    PluginError where it fails or does not fit."""
    snapshot: list[Any] = [health or HealthSnapshot.healthy(fabric)] if wants_health(collective) else []
    with blaming(f"collective {name}: schedule"):
        schedule = collective.schedule(fabric, ranks, size, dtype, redop, *snapshot)
    place = f"collective {name}: schedule() at {defined_at(collective.schedule)}"
    if not isinstance(schedule, Schedule):
        raise PluginError(f"{place} returns {type_name(schedule)}, not a Schedule.")
    if (schedule.n_ranks, schedule.dtype, schedule.redop) != (len(ranks), dtype, redop):
        raise PluginError(
            f"{place} returns a schedule of {schedule.n_ranks} ranks, {schedule.dtype}, {schedule.redop}; "
            f"asked for {len(ranks)}, {dtype}, {redop}."
        )
    return schedule


def schedule_by_health(
    name: str,
    collective: Collective,
    fabric: Fabric,
    ranks: Sequence[int],
    usual: Schedule,
    health: HealthSnapshot,
) -> Schedule:
    """The schedule, compact, of a collective that wants health, in place of its `usual` one. Raises
    PluginError also where inputs and results of that do not fit it, and for computations in it."""
    size, kind = usual.size_bytes, (usual.dtype, usual.redop)
    schedule = schedule_of(name, collective, fabric, ranks, size, *kind, health)
    place = f"collective {name}: schedule() at {defined_at(collective.schedule)}"
    if (schedule.size_bytes, schedule.buffer_bytes) != (size, usual.buffer_bytes):
        raise PluginError(
            f"{place} returns, for other scores, a schedule of {schedule.size_bytes} bytes in buffers of "
            f"{schedule.buffer_bytes}, not of {size} in {usual.buffer_bytes}: inputs and results stay the "
            "same."
        )
    if schedule.seconds.any() and not usual.seconds.any():
        raise PluginError(f"{place} computes for other scores alone, which no estimate knows.")
    return schedule


def a_slow_rank(fabric: Fabric, gpu: int) -> HealthSnapshot:
    """Health with which a collective is tried: the links of a GPU at half their rate."""
    touches = (fabric.link_src == gpu) | (fabric.link_dst == gpu)
    healthy = HealthSnapshot.healthy(fabric, version=1)
    return replace(healthy, link_score=np.where(touches, 0.5, 1.0))


def no_path(name: str, chooser: PathChooser, answer: object, n_paths: int) -> PluginError | None:
    """What is wrong with an answer of `choose`, with file and line; None for a path that is there."""
    if isinstance(answer, int | np.integer) and 0 <= answer < n_paths:
        return None
    place = defined_at(chooser.choose)
    return PluginError(f"chooser {name}: choose() at {place} gives path {answer} of 0..{n_paths - 1}.")


def check_chooser(name: str, chooser: PathChooser, path_counts: Sequence[int]) -> None:
    """Call a chooser for pairs with that number of paths, as a sender does. Raises PluginError, with file and
    line, where it fails or names a path that is not there."""
    draws = np.random.default_rng(1)
    for n_paths in path_counts:
        with blaming(f"chooser {name}"):
            s, shares = chooser.start()[0], np.full(n_paths, 1 / n_paths)
            chooser.use_paths(s, n_paths)
            for packet in range(2 * n_paths + TRIED_PACKETS):
                now = packet * TRIED_EVERY_PS
                path = chooser.choose(s, now, np.uint64(draws.integers(1 << 63)), shares)
                if (wrong := no_path(name, chooser, path, n_paths)) is not None:
                    raise wrong
                if packet % 8 == 7:
                    chooser.lost(s, now, path)
                else:
                    chooser.acknowledged(s, now, path, packet % 4 == 3, TRIED_EVERY_PS)


def notes_of(name: str, collective: Collective, fabric: Fabric, ranks: Sequence[int]) -> tuple[str, ...]:
    """What a collective has to say of itself. Raises PluginError for what is no sentences."""
    if not isinstance(collective, NotesOfTraffic):
        return ()
    with blaming(f"collective {name}: notes"):
        notes = collective.notes(fabric, ranks)
    if isinstance(notes, list | tuple) and all(isinstance(note, str) for note in notes):
        return tuple(notes)
    raise PluginError(
        f"collective {name}: notes() at {defined_at(collective.notes)} returns {notes!r}, not a list of "
        "texts."
    )


def check_collective(
    name: str,
    collective: Collective,
    fabric: Fabric,
    schedule: Schedule,
    packet: PacketFormat,
    seed: int | None,
) -> None:
    """Call every other method once. Raises PluginError for what fails, and for inputs or expected results so
    short that wrong data would go unseen. Buffers above `MOST_BYTES` are not filled, and none without a
    `seed`, where no data is carried."""
    for method, arguments in (
        ("busbw_factor", (schedule.n_ranks,)),
        ("closed_form_s", (fabric, schedule, packet)),
    ):
        with blaming(f"collective {name}: {method}"):
            value = getattr(collective, method)(*arguments)
        number = isinstance(value, int | float | np.number) and isfinite(value) and value >= 0
        if not (number or (value is None and method == "closed_form_s")):
            raise PluginError(
                f"collective {name}: {method}() at {defined_at(getattr(collective, method))} returns "
                f"{value!r}, not a number of 0 or more."
            )
    if seed is not None and schedule.n_transfers and schedule.n_ranks * schedule.buffer_bytes <= MOST_BYTES:
        CheckedData(name, collective, schedule).inputs(seed)


class CheckedData:
    """The inputs and expected results of a collective over one schedule. All methods raise PluginError for
    what the collective's own methods raise, and for arrays so short that wrong data would go unseen."""

    def __init__(self, name: str, collective: Collective, schedule: Schedule) -> None:
        self._name, self._collective, self._schedule = name, collective, schedule
        self._results_checked = False
        first = np.diff(schedule.after_start) == 0
        into_data = (schedule.dst_buffer == DATA) & (schedule.reduce > 0)
        self._used = np.maximum(
            _ends(schedule, schedule.dst, schedule.dst_offset, into_data),
            _ends(schedule, schedule.src, schedule.src_offset, (schedule.src_buffer == DATA) & first),
        )
        result = OUTPUT if (schedule.dst_buffer == OUTPUT).any() else DATA
        sender = np.repeat(schedule.src, np.diff(schedule.after_start))
        passed_on = schedule.after[sender == schedule.dst[schedule.after]]  # it is no result yet
        stays = np.isin(np.arange(schedule.n_entries), passed_on, invert=True)
        self._received = _ends(
            schedule, schedule.dst, schedule.dst_offset, stays & (schedule.dst_buffer == result)
        )
        if collective.same_result_everywhere:
            self._received[:] = self._received.max(initial=0)

    def inputs(self, seed: int) -> list[NDArray[Any]]:
        """What every rank holds before an iteration. The first time, the results expected are checked as
        well."""
        with blaming(f"collective {self._name}: inputs"):
            inputs = self._collective.inputs(self._schedule, seed)
        place = f"collective {self._name}: inputs() at {defined_at(self._collective.inputs)}"
        if not isinstance(inputs, Sequence) or len(inputs) != self._schedule.n_ranks:
            kind = f"{len(inputs)} arrays" if isinstance(inputs, Sequence) else type_name(inputs)
            raise PluginError(f"{place} returns {kind}, not a list of {self._schedule.n_ranks} arrays.")
        for rank, array in enumerate(inputs):
            _check_array(place, rank, array, self._schedule, int(self._used[rank]), "sends or combines")
        inputs = list(inputs)
        if not self._results_checked:
            for _ in self.results(inputs):
                pass
            self._results_checked = True
        return inputs

    def results(self, inputs: Sequence[NDArray[Any]]) -> Iterator[NDArray[Any]]:
        """What every rank must hold after an iteration on `inputs`, in rank order; computed once if it is the
        same for all."""
        place = f"collective {self._name}: expected() at {defined_at(self._collective.expected)}"
        for rank in range(self._schedule.n_ranks):
            if rank == 0 or not self._collective.same_result_everywhere:
                with blaming(f"collective {self._name}: expected of rank {rank}"):
                    result = self._collective.expected(self._schedule, inputs, rank)
                _check_array(place, rank, result, self._schedule, int(self._received[rank]), "receives")
            yield result


def _ends(schedule: Schedule, rank: Int32, offset: Int64, counted: Bool) -> Int64:
    """(n_ranks,): how far into its buffer each rank's counted transfers reach, in bytes."""
    reach = np.zeros(schedule.n_ranks, np.int64)
    np.maximum.at(reach, rank[counted], (offset + schedule.size)[counted])
    return reach


def _check_array(place: str, rank: int, array: object, schedule: Schedule, least: int, why: str) -> None:
    if not isinstance(array, np.ndarray) or array.dtype != np.dtype(schedule.dtype):
        kind = f"an array of {array.dtype}" if isinstance(array, np.ndarray) else type_name(array)
        raise PluginError(f"{place} returns {kind} for rank {rank}, not an array of {schedule.dtype}.")
    if array.ndim != 1:
        raise PluginError(
            f"{place} returns an array {array.shape} for rank {rank}, not one of one dimension."
        )
    if not least <= array.nbytes <= schedule.buffer_bytes:
        raise PluginError(
            f"{place} returns {array.size} elements ({array.nbytes} bytes) for rank {rank}, which {why} "
            f"{least} bytes of its buffer of {schedule.buffer_bytes}: wrong data would go unseen. "
            "Cover all of them."
        )
