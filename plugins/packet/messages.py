"""The messages of an iteration, as the simulation keeps them."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from railweave.framework.model import PacketFormat, Schedule
from railweave.framework.model.arrays import ArrayNoun, Bool, Int64
from railweave.framework.model.expansion import listed
from railweave.framework.model.routes import starts
from railweave.plugins.packet.layout import ENTRY, NEVER, NONE


@dataclass(frozen=True, eq=False, slots=True)
class Messages(ArrayNoun):
    """Entries of a schedule (layout.ENTRY), whose pairs are numbers of P pairs. `order`: those that are
    messages, by pair, those of a pair from `start` (P+1,) on; `after`: the entries that wait for each;
    `packets` (P,) of each pair; `of` (n,): which entry of the schedule each is a repetition of."""

    entry: Any
    order: Int64
    start: Int64
    after: Int64
    packets: Int64
    of: Int64


def messages_of(schedule: Schedule, packet: PacketFormat, src: Int64, dst: Int64, n_gpus: int) -> Messages:
    """Of a schedule between GPUs, whose pairs are among (src, dst), (P,) each, by src, then dst. Raises
    FabricError where its list is too long."""
    items, transfer = listed(schedule, np.ones(schedule.n_entries, bool))
    n = items.n_entries
    sent: Bool = items.is_transfer
    entry = np.zeros(n, ENTRY)
    numbers = items.src.astype(np.int64) * n_gpus + items.dst
    pair = np.searchsorted(src * n_gpus + dst, numbers)
    entry["pair"] = np.where(sent, pair, NONE)
    entry["size"] = items.size
    packets = np.where(sent, packet.packets_of(items.size), 0)
    entry["packets"] = entry["missing"] = packets
    entry["takes"] = np.where(sent, 0, np.rint(items.seconds * 1e12))
    entry["end"] = entry["ready"] = NEVER
    entry["waits"] = np.diff(items.after_start)
    order = np.flatnonzero(sent)
    order = order[np.argsort(pair[order], kind="stable")]
    start = starts(np.bincount(pair[sent], minlength=len(src)))
    before = np.cumsum(packets[order]) - packets[order]
    of_pair = np.bincount(pair[sent], packets[sent], len(src)).astype(np.int64)
    entry["first"][order] = before - (np.cumsum(of_pair) - of_pair)[pair[order]]
    waiting = np.repeat(np.arange(n), np.diff(items.after_start))
    by_cause = np.argsort(items.after, kind="stable")
    ends = starts(np.bincount(items.after, minlength=n))
    entry["after"], entry["after_end"] = ends[:-1], ends[1:]
    return Messages(entry, order, start, waiting[by_cause], of_pair, transfer)
