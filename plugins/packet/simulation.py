"""The arrays of the simulation, made, filled and read: pairs, paths, links, iterations."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from railweave.framework.hookspecs import CongestionControl, PathChooser
from railweave.framework.model import Fabric, PacketFormat, PathBatch
from railweave.framework.model.arrays import Bool, Float, Int64, spread
from railweave.plugins.packet import layout
from railweave.plugins.packet.calendar import TIMER, push
from railweave.plugins.packet.draws import key_of, of_iteration
from railweave.plugins.packet.layout import (
    BLOCK,
    COUNT,
    ENTRY,
    EVENT,
    FLOWLET,
    FULL,
    LINK,
    NEVER,
    NONE,
    PACKET,
    PAIR,
    PATH,
    PICOSECONDS,
    STOPPED,
    State,
    in_lines,
)
from railweave.plugins.packet.losses import probed_again, silence_of, timeout_of
from railweave.plugins.packet.machine import called, machine_code
from railweave.plugins.packet.messages import Messages
from railweave.plugins.packet.room import day_shift, grown
from railweave.plugins.packet.sending import NEVER_IN_NIC, USE_PATHS, WAKES, watch
from railweave.plugins.packet.settings import Settings, Waits
from railweave.plugins.packet.windows import Links, most_in_nic

CNP_BODY = 16
"""Reserved bytes of a CNP behind its BTH (InfiniBand specification, annex A17)."""
EVENTS = 1 << 18
"""Events that are carried out before others see what has become of it: about a tenth of a second."""
COUNTED = (
    "packets", "again", "twice", "marked", "trimmed", "beyond", "behind", "depth", "notified", "bad_icrc",
    "bytes", "declared",
)  # fmt: skip
"""What a pair counts in an iteration."""


class Simulation:
    """Packets on a fabric. `pairs`: for every job the pairs of GPUs (src, dst) that it may use; they are
    numbered one job after the other. `messages`: for every job the largest iterations it may have.
    `by_path`: whether senders count what becomes of the packets of each path.

    Times are declared picoseconds, sizes wire bytes; rates are those of the fabric.
    """

    def __init__(
        self,
        fabric: Fabric,
        packet: PacketFormat,
        pairs: Sequence[tuple[Int64, Int64]],
        messages: Sequence[Sequence[Messages]],
        settings: Settings,
        chooser: PathChooser | None = None,
        control: CongestionControl | None = None,
        *,
        by_path: bool = False,
    ) -> None:
        self._by_path = by_path
        self._run, self._call = machine_code(settings.extras), called(chooser, control)
        self._settings, self._packet = settings, packet
        self._first_pair = np.cumsum([0, *(len(src) for src, _ in pairs)])
        self._shares = [len(np.union1d(*ends)) / fabric.n_gpus for ends in pairs]
        most = [max((len(m.entry) for m in of_job), default=0) for of_job in messages]
        waits = [max((len(m.after) for m in of_job), default=0) for of_job in messages]
        packets = [max((int(m.packets.sum()) for m in of_job), default=0) for of_job in messages]
        self._first_entry, self._first_after = np.cumsum([0, *most]), np.cumsum([0, *waits])
        self._first_got = np.cumsum([0, *packets])
        n_pairs, n_entries = int(self._first_pair[-1]), int(self._first_entry[-1])
        self.s = State(
            np.zeros(0, PACKET), self._links(fabric), np.zeros(0, PATH), in_lines(n_pairs, PAIR),
            np.zeros(n_entries, ENTRY), np.zeros(0, np.int32), np.zeros(n_entries, np.int32),
            np.zeros(int(self._first_after[-1]), np.int32), np.zeros(int(self._first_got[-1]), np.uint8),
            np.zeros(n_pairs + 1, np.int32), np.zeros(n_entries + 1, np.int32),
            np.zeros(fabric.n_links, np.int32),
            np.full(len(pairs), NEVER), np.zeros(0, EVENT), np.zeros(0, EVENT),
            np.full(layout.DAYS, NONE, np.int32), np.zeros(layout.DAYS // 32, np.int64), np.zeros(0, BLOCK),
            np.zeros(fabric.n_links, np.uint8), np.zeros(0),
            np.zeros(0, FLOWLET), np.zeros(0, np.int64), np.zeros(fabric.n_links, np.int64),
            np.zeros(fabric.n_links, np.int64), np.zeros(fabric.n_links, np.int64),
            np.zeros(fabric.n_links, np.int64), np.zeros(0, COUNT),
            *settings.buffers.records(fabric, packet), np.zeros(layout.N_GLOBALS, np.int64),
        )  # fmt: skip
        self._chooser, self._control = chooser, control
        nothing = np.zeros(0)
        self._known = nothing if chooser is None else np.repeat(np.asarray(chooser.start()), n_pairs)
        self.controlled = nothing if control is None else np.repeat(control.sender_record(), n_pairs)
        receiver = None if control is None else control.receiver_record()
        self._receivers = nothing if receiver is None else np.repeat(receiver, n_pairs)
        self._set_globals(packet)
        self.s.globals[layout.BUFFERS] = settings.buffers.flags
        self.s.globals[layout.PATIENCE] = settings.buffers.patience(fabric, packet)
        self._set_pairs(pairs)
        self.s = grown(self.s)

    def _links(self, fabric: Fabric) -> Any:
        links, settings = in_lines(fabric.n_links, LINK), self._settings
        links["ps_per_byte"] = 8 * PICOSECONDS / fabric.capacity_bps
        links["latency"] = np.rint(fabric.latency_s * PICOSECONDS)
        links["instant"] = (links["latency"] == 0) & (not settings.extras)
        links["head"] = links["tail"] = NONE
        links["busy"] = -1 - (settings.credit or 0)  # before the start, and buckets are full
        links["room"], links["kmin"] = settings.room, settings.kmin
        links["kmax"], links["pmax"] = settings.kmax, settings.pmax
        return links

    def harm(self, loss: Float, bad_icrc: Float, down: Bool) -> None:
        """Faults of links (L,): shares of packets that they lose, and that arrive with a wrong ICRC."""
        link, self.s.faulty[:] = self.s.link, down | (loss > 0) | (bad_icrc > 0)
        link["loss"], link["bad_icrc"], link["down"] = loss, bad_icrc, down

    def _set_globals(self, packet: PacketFormat) -> None:
        g, pair = self.s.globals, self.s.pair
        g[layout.FREE] = g[layout.FREE_BLOCK] = NONE
        g[layout.SHIFT] = day_shift(self.s.link, packet.full_packet_bytes)
        g[layout.MTU], g[layout.HEADERS] = packet.path_mtu, packet.HEADERS
        g[layout.FIRST_HEADERS] = packet.HEADERS + packet.RETH
        g[layout.ACK_BYTES] = packet.acknowledgement_bytes
        g[layout.CNP_BYTES] = packet.HEADERS + CNP_BODY
        settings = self._settings
        g[layout.TRIMMING], g[layout.ADAPTIVE] = settings.trimming, settings.adaptive
        g[layout.GAP], g[layout.TIES_DRAWN] = settings.gap, settings.ties_drawn
        g[layout.MARKS_LEAVING], g[layout.SWITCHING] = settings.marks_leaving, settings.cut_through
        g[layout.FAIR] = settings.fair
        if settings.credit is not None:
            g[layout.SWITCHING], g[layout.CREDIT] = layout.TOKEN_BUCKETS, settings.credit
        g[layout.PAIR_BASE], g[layout.PAIR_BYTES] = pair.ctypes.data, pair.itemsize
        records_at = (
            (layout.CHOOSER, self._known),
            (layout.CONTROL, self.controlled),
            (layout.RECEIVER, self._receivers),
        )
        for place, records in records_at:
            if len(records):
                g[place], g[place + 1] = records.ctypes.data, records.itemsize
        if self._chooser is not None:
            g[layout.CHOOSES_MESSAGES] = getattr(self._chooser, "each", "packet") == "message"

    def _set_pairs(self, pairs: Sequence[tuple[Int64, Int64]]) -> None:
        pair = self.s.pair
        for name in ("lost_head", "lost_tail", "left_path", "owed_head", "owed_tail"):
            pair[name] = NONE
        pair["wake"] = pair["woken"] = pair["due"] = NEVER
        pair["ack_every"] = self._settings.ack_every
        for job, (src, dst) in enumerate(pairs):
            ours = slice(self._first_pair[job], self._first_pair[job + 1])
            pair["job"][ours] = job
            pair["key"][ours] = [
                key_of(self._settings.seed, job, *ends)
                for ends in zip(src.tolist(), dst.tolist(), strict=True)
            ]
        self._keys = pair["key"].copy()

    # -- paths -----------------------------------------------------------------------------------------
    def use_paths(self, job: int, batch: PathBatch, which: Bool | None = None) -> None:
        """The pairs of a job take the paths of `batch` from now on, or those of them `which` do (P,)."""
        s, first_pair = self.s, int(self._first_pair[job])
        path, n_before, hops_before = np.zeros(len(batch.weight), PATH), len(s.path), len(s.hops)
        path["start"], path["hops"] = batch.hop_start[:-1] + hops_before, np.diff(batch.hop_start)
        path["head"], path["tail"], path["share"] = NONE, NONE, batch.weight
        shares = np.concatenate((s.shares, batch.weight))
        flowlets = len(batch.links) if self._settings.adaptive == layout.BY_FLOWLET else 0
        self.s = s = s._replace(
            path=np.concatenate((s.path, path)),
            hops=np.concatenate((s.hops, batch.links.astype(np.int32))),
            shares=shares,
            flowlet=np.concatenate((s.flowlet, np.zeros(flowlets, FLOWLET))),
            counts=np.concatenate((s.counts, np.zeros(len(path) * self._by_path, COUNT))),
        )
        s.globals[layout.SHARES] = shares.ctypes.data
        if self._settings.in_turn:
            has_links = np.diff(batch.hop_start) > 0
            s.link["instant"][batch.links[batch.hop_start[:-1][has_links]]] = 0
        most = most_in_nic(batch) if self._settings.in_turn else np.full(len(batch.src), NEVER_IN_NIC)
        changed = np.arange(len(batch.src)) if which is None else np.flatnonzero(which)
        for i in changed.tolist():
            p, low, high = first_pair + i, int(batch.pair_start[i]), int(batch.pair_start[i + 1])
            self._leave_paths(p)
            s.pair[p]["first_path"], s.pair[p]["paths"] = n_before + low, high - low
            s.pair[p]["turns"], s.pair[p]["oldest"] = 0, 0
            s.pair[p]["even"] = high > low and np.ptp(batch.weight[low:high]) == 0
            s.pair[p]["most_in_nic"] = most[i]
            if self._chooser is not None and high > low:
                record = self._known.ctypes.data + p * self._known.itemsize
                self._call.ctypes(USE_PATHS, record, 0, 0, high - low, 0, 0, 0)
            if s.pair[p]["epoch"]:
                self._look(p)

    def _leave_paths(self, p: int) -> None:
        """What is under way on the paths of a pair is on paths that it has left."""
        s = self.s
        pair = s.pair[p]
        first = int(pair["first_path"])
        before = int(pair["left_wait"]), int(pair["left_silence"])
        if pair["left_path"] == NONE:
            before = 0, 0
        for q in range(first, first + int(pair["paths"])):
            if s.path[q]["head"] != NONE:
                s.path[q]["next_left"], pair["left_path"] = pair["left_path"], q
        pair["left_wait"] = max(before[0], timeout_of(s, p) + int(pair["smoothed"]))
        pair["left_silence"] = max(before[1], silence_of(s, p))
        if s.pair[p]["probes"]:  # the other end was unreachable: probe the new paths at once
            s.pair[p]["probes"] = 0
            s.pair[p]["active"] = self.now - silence_of(s, p)

    def retry(self, job: int) -> None:
        """Links that were down are up again: pairs of a job whose last probe has no answer probe at once."""
        ours = slice(self._first_pair[job], self._first_pair[job + 1])
        for p in (ours.start + np.flatnonzero(self.s.pair[ours]["probes"])).tolist():
            self.s.pair[p]["active"] = self.now - probed_again(self.s, p)
            self.s = grown(self.s)
            watch(self.s, p, self.now)

    def _look(self, p: int) -> None:
        g, s = self.s.globals, self.s
        if not s.pair[p]["asked"]:
            s.pair[p]["asked"] = 1
            s.looks[(g[layout.LOOK_HEAD] + g[layout.LOOKS]) % len(s.looks)] = p
            g[layout.LOOKS] += 1

    def allow(self, job: int, window_bytes: Float, waits: Waits, ack_every: Int64 | None = None) -> None:
        """Waits of the pairs of a job, windows where no congestion control sets them, and packets per
        acknowledgement where the settings leave that open, (P,)."""
        ours = slice(self._first_pair[job], self._first_pair[job + 1])
        pair = self.s.pair
        self._keep_probes(pair[ours], waits)
        if self._control is None:
            pair["window"][ours] = window_bytes
        pair["first_wait"][ours], pair["timeout"][ours] = waits.first, waits.timeout
        pair["most_wait"][ours], pair["dead_after"][ours] = waits.most, waits.dead
        if not self._settings.ack_every and ack_every is not None:
            pair["ack_every"][ours] = ack_every
        self._watch_sooner(ours)

    def _watch_sooner(self, ours: slice) -> None:
        """Another event for pairs that probe sooner by their new waits than the one that is out."""
        pair = self.s.pair[ours]
        probes_at = pair["active"] + np.maximum(pair["first_wait"], 2 * pair["smoothed"])
        sooner = (pair["in_flight"] > 0) & (pair["probes"] == 0) & (probes_at < pair["due"])
        for p in (ours.start + np.flatnonzero(sooner)).tolist():
            self.s = grown(self.s)
            watch(self.s, p, max(int(self.s.pair[p]["active"]) + silence_of(self.s, p), self.now))

    def _keep_probes(self, pair: Any, waits: Waits) -> None:
        """What is under way was sent when the old waits held: its probe comes no later for new ones."""
        trip = 2 * pair["smoothed"]
        before, after = np.maximum(pair["first_wait"], trip), np.maximum(waits.first, trip)
        timeout = np.maximum(waits.timeout, pair["smoothed"] + 4 * pair["variation"])
        which = (before != after) & (pair["in_flight"] > 0) & (pair["probes"] == 0)
        due = np.minimum(pair["active"] + before, self.now + timeout)
        pair["active"][which] = (due - after)[which]

    def control(self, job: int, links: Links, which: Bool | None = None) -> None:
        """The congestion controls of a job's pairs, or of those `which` (P,), begin on such paths."""
        control, first = self._control, int(self._first_pair[job])
        assert control is not None
        changed = np.arange(len(links.hops)) if which is None else np.flatnonzero(which)
        for i in changed.tolist():
            record, pair = self.controlled[first + i], self.s.pair[first + i]
            control.start(
                record, self.now, float(links.rate[i]), int(links.trip[i]), int(links.hops[i]),
                self._packet.full_packet_bytes,
            )  # fmt: skip
            pair["window"], pair["rate"], pair["wake"] = record["window"], record["rate"], record["wake"]
            pair["unpaced"], pair["woken"] = links.nic_rate[i], NEVER
            if pair["wake"] < NEVER:
                self._wake(first + i)

    def _wake(self, p: int) -> None:
        """An event for the congestion control of a pair."""
        pair = self.s.pair[p]
        self.s = grown(self.s)
        pair["woken"] = max(int(pair["wake"]), self.now)
        push(self.s, int(pair["woken"]), (TIMER << 60) | (p << 32) | WAKES)

    # -- iterations ------------------------------------------------------------------------------------
    def begin(self, job: int, messages: Messages) -> None:
        """An iteration of a job begins now."""
        s, g = self.s, self.s.globals
        pairs = slice(self._first_pair[job], self._first_pair[job + 1])
        first, n = int(self._first_entry[job]), len(messages.entry)
        entry, pair = messages.entry.copy(), s.pair[pairs]
        entry["job"], entry["path"] = job, NONE
        entry["pair"] += np.where(entry["pair"] >= 0, self._first_pair[job], 0).astype(np.int32)
        entry["after"] += self._first_after[job]
        entry["after_end"] += self._first_after[job]
        s.entry[first : first + n] = entry
        s.order[first : first + len(messages.order)] = messages.order + first
        s.after[self._first_after[job] : self._first_after[job] + len(messages.after)] = (
            messages.after + first
        )
        pair["messages"], pair["messages_end"] = messages.start[:-1] + first, messages.start[1:] + first
        pair["message"], pair["done"], pair["number"] = pair["messages"], 0, 0
        before = int(pair["epoch"].max(initial=0))
        pair["epoch"] += 1
        pair["key"] = self._keys[pairs] ^ np.uint64(of_iteration(before))
        pair["calls"] = 0
        for name in COUNTED:
            pair[name] = 0
        pair["got"] = self._first_got[job] + np.cumsum(messages.packets) - messages.packets
        s.got[self._first_got[job] : self._first_got[job + 1]] = 0
        s.left[job] = n
        under_way = (s.left > 0) & (s.left < NEVER)
        g[layout.LATE] = round(self._settings.late * np.dot(self._shares, under_way))
        for e in (first + np.flatnonzero(entry["waits"] == 0)).tolist():
            s.ready[(g[layout.READY_HEAD] + g[layout.READIES]) % len(s.ready)] = e
            g[layout.READIES] += 1

    def drop(self, job: int) -> None:
        """The iteration of a job ends as it is, and none follows."""
        s = self.s
        ours = slice(self._first_pair[job], self._first_pair[job + 1])
        s.pair["epoch"][ours] += 1
        s.pair["message"][ours] = s.pair["messages_end"][ours]
        entries = s.entry[self._first_entry[job] : self._first_entry[job + 1]]
        entries["after_end"] = entries["after"]
        s.left[job] = NEVER

    def over(self, job: int) -> bool:
        return not self.s.left[job]

    def paths_of(self, job: int) -> Int64:
        """The numbers of the paths that a job's pairs take now, pair by pair."""
        pair = self.of_job(job)
        return spread(pair["first_path"].astype(np.int64), pair["paths"].astype(np.int64))

    @property
    def counts(self) -> Int64:
        """(paths, 3): as layout.COUNT."""
        return self.s.counts.view(np.int64).reshape(-1, 3).copy()

    def first_pair(self, job: int) -> int:
        """The number of a job's first pair."""
        return int(self._first_pair[job])

    def of_job(self, job: int) -> Any:
        """Its pairs, as records (layout.PAIR)."""
        return self.s.pair[self._first_pair[job] : self._first_pair[job + 1]]

    def entries(self, job: int, n: int) -> Any:
        """The first `n` entries of a job, as records (layout.ENTRY)."""
        return self.s.entry[self._first_entry[job] : self._first_entry[job] + n]

    # -- time ------------------------------------------------------------------------------------------
    @property
    def now(self) -> int:
        return int(self.s.globals[layout.NOW])

    def advance(self, until: int, shown: Callable[[], None] = lambda: None) -> bool:
        """Go on until then; False if that has ended earlier: an iteration is over, a pair has given up, a
        chooser was wrong, or there is a deadlock. `shown` is called now and then."""
        g = self.s.globals
        g[layout.ENDED] = 0
        while True:
            why = self._run(self.s, until, EVENTS, self._call)
            if why == FULL:
                self.s = grown(self.s)
            elif why == STOPPED:
                return False
            elif why == layout.REACHED:
                return True
            shown()
