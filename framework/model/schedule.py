"""A collective as a DAG of transfers: listed, or compact, with repetitions, joins and symmetries."""

from dataclasses import dataclass, field
from functools import cached_property
from math import inf

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.model.arrays import ArrayNoun, Bool, Float, Int32, Int64, readonly
from railweave.framework.model.repetitions import Amount, in_all, per_repetition
from railweave.framework.model.traffic import PacketFormat


@dataclass(frozen=True, eq=False, slots=True)
class Spans(ArrayNoun):
    """Where the repetitions of the entries of a compact schedule lie: in lists of chunks, each of `lag`
    spans, that an entry goes through in a cycle.

    `offset`, `size` (S,): bytes of the spans of all lists, one list after another. Of each entry (n,):
    `src_list` and `dst_list`, where its lists begin; `chunks`, how many chunks one has, 0 for an entry whose
    place the schedule itself has; `src_turn` and `dst_turn`, the chunk of its first repetitions; `stride`,
    how many chunks on those of the next are.

    With `shard_bytes`, buffers hold shards of this size, `n_shards` of them, in a cycle that begins with
    `src_first` or `dst_first` (n,); offsets are those of a buffer that begins with shard 0.
    """

    offset: Int64
    size: Int64
    src_list: Int64
    dst_list: Int64
    chunks: Int64
    src_turn: Int64
    dst_turn: Int64
    stride: Int64
    shard_bytes: int = 0
    n_shards: int = 0
    src_first: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    dst_first: Int64 = field(default_factory=lambda: np.empty(0, np.int64))

    def at(self, entry: Int64, repetition: Int64, lag: Int64) -> tuple[Int64, Int64, Int64]:
        """(offset at the sender, at the receiver, bytes) of repetitions of entries in lists; all (N,)."""
        round_, within = np.divmod(repetition, lag)
        moved = self.stride[entry] * round_
        src, dst = (
            lists[entry] + (turn[entry] + moved) % self.chunks[entry] * lag + within
            for lists, turn in ((self.src_list, self.src_turn), (self.dst_list, self.dst_turn))
        )
        src_offset, dst_offset = self.offset[src], self.offset[dst]
        if self.shard_bytes:
            src_offset = self._turned(src_offset, self.src_first[entry])
            dst_offset = self._turned(dst_offset, self.dst_first[entry])
        return src_offset, dst_offset, self.size[src]

    def _turned(self, offset: Int64, first: Int64) -> Int64:
        shard, within = np.divmod(offset, self.shard_bytes)
        return (shard - first) % self.n_shards * self.shard_bytes + within


@dataclass(frozen=True, eq=False)
class Schedule(ArrayNoun):
    """Transfers between ranks (positions in the list of endpoints), each of which may start when those in
    `after` are complete: landed and, with `reduce`, combined into the destination's buffer.

    Every rank has a `data` buffer of `buffer_bytes`; `src_buffer` and `dst_buffer` choose between it (0) and
    an output buffer (1) and a scratch buffer (2) of the same size. Arrays of n entries: src, dst,
    src_offset, dst_offset, size (bytes), reduce (bool as int), phase; `after_start` (n+1,) into `after`.

    That is all of a listed schedule, whose entries are transfers in the order in which a rank sends what it
    has for one peer. A compact one holds more; `expand` lists it:

    - `repeat` (n,): how many times in a row a transfer is carried out. All repetitions wait for all of
      those in `after`. Repetition r >= `lag` waits for repetition r - lag of the entries in `chained`
      (`chained_start` (n+1,), as `after`), which may stand behind it. `size` is that of the largest
      repetition, or of the largest of its like; `spans` says where each one lies.
    - Computations: `src` and `dst` are one rank, which needs `seconds` (n,), at declared rates. Joins: one
      entry that waits for many, and for which many wait. That of a rank is a computation of 0 seconds; `src`
      and `dst` of others are -1.
    - Local steps: `src` and `dst` are one rank, and `size` is more than 0. Its memory is copied or combined
      at once, without a packet. A listed schedule may have them, too.
    - `slot` (n,), ascending: entries of one slot take turns, `lag` repetitions each time, in the order in
      which a rank sends what it has for one peer. By default each entry has a slot of its own.
    - `symmetries` (g, n_ranks): permutations of the ranks that ought to lead from every entry to one that is
      alike (the k-th from one rank to another to the k-th between their images); the user of one checks it.
    """

    collective: str
    n_ranks: int
    size_bytes: int
    dtype: str
    redop: str
    buffer_bytes: int
    src: Int32
    dst: Int32
    src_offset: Int64
    dst_offset: Int64
    size: Int64
    reduce: Int32
    phase: Int32
    after_start: Int64
    after: Int64
    src_buffer: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    dst_buffer: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    phase_names: tuple[str, ...] = ()
    repeat: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    lag: Int32 = field(default_factory=lambda: np.empty(0, np.int32))
    chained_start: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    chained: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    seconds: Float = field(default_factory=lambda: np.empty(0))
    slot: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    symmetries: Int32 = field(default_factory=lambda: np.empty((0, 0), np.int32))
    spans: Spans | None = None

    def __post_init__(self) -> None:
        n = len(self.src)
        for name, default in (
            ("src_buffer", np.zeros),
            ("dst_buffer", np.zeros),
            ("repeat", np.ones),
            ("lag", np.ones),
            ("seconds", np.zeros),
            ("slot", np.arange),
        ):
            if len(getattr(self, name)) == 0:
                object.__setattr__(self, name, default(n))
        if len(self.chained_start) == 0:
            object.__setattr__(self, "chained_start", np.zeros(n + 1))
        if len(self.symmetries) == 0:
            object.__setattr__(self, "symmetries", np.empty((0, self.n_ranks)))
        ArrayNoun.__post_init__(self)
        self._check_shapes(n)
        waiting = np.repeat(np.arange(n), np.diff(self.after_start))
        if np.any(self.after >= waiting):
            raise FabricError(f"schedule {self.collective}: a transfer waits for itself or for a later one.")
        if n == 0:
            return
        offsets = self.src_offset, self.dst_offset
        if (
            min(int(offset.min()) for offset in (*offsets, self.size)) < 0
            or max(int((offset + self.size).max()) for offset in offsets) > self.buffer_bytes
            or min(int(self.src.min()), int(self.dst.min())) < -1
            or np.any((self.src < 0) != (self.dst < 0))
            or max(int(self.src.max()), int(self.dst.max())) >= self.n_ranks
        ):
            raise FabricError(f"schedule {self.collective}: a transfer reaches outside its buffers or ranks.")
        self._check_repetitions(n)

    def _check_shapes(self, n: int) -> None:
        arrays = (self.dst, self.src_offset, self.dst_offset, self.size, self.reduce, self.phase)
        compact = (self.repeat, self.lag, self.seconds, self.slot, self.src_buffer, self.dst_buffer)
        ranges = ((self.after_start, self.after), (self.chained_start, self.chained))
        if (
            {len(array) for array in (*arrays, *compact)} != {n}
            or any(len(start) != n + 1 or start[-1] != len(entries) for start, entries in ranges)
            or self.symmetries.shape[1:] != (self.n_ranks,)
            or (self.spans is not None and len(self.spans.chunks) != n)
        ):
            raise FabricError(f"schedule {self.collective}: its arrays do not fit together.")

    def _check_repetitions(self, n: int) -> None:
        waiting, chained = np.repeat(np.arange(n), np.diff(self.chained_start)), self.chained
        if (
            int(self.repeat.min()) < 1
            or int(self.lag.min()) < 0
            or not 0 <= float(self.seconds.min()) <= float(self.seconds.max()) < inf
            or np.any((self.repeat > 1) & ~self.is_transfer)
            or np.any(self.slot[1:] < self.slot[:-1])
        ):
            raise FabricError(
                f"schedule {self.collective}: an entry is repeated 1 time or more, and a computation or join "
                "once; a lag or a time is 0 or more; slots ascend."
            )
        if chained.size and (
            int(chained.min()) < 0
            or int(chained.max()) >= n
            or not self.is_transfer[chained].all()
            or np.any(self.repeat[chained] < self.repeat[waiting] - self.lag[waiting])
            or np.any((self.lag[waiting] == 0) & (chained >= waiting))
        ):
            raise FabricError(
                f"schedule {self.collective}: a repetition is chained to one that does not exist, or to "
                "itself."
            )

    @property
    def n_entries(self) -> int:
        return len(self.src)

    @property
    def is_transfer(self) -> Bool:
        """(n,): which entries are transfers; the others are computations, joins and local steps."""
        return np.asarray(self.src != self.dst)

    @property
    def moves_data(self) -> Bool:
        """(n,): which entries change memory: transfers and local steps."""
        return self.is_transfer | (self.size > 0)

    @property
    def n_transfers(self) -> int:
        """Transfers, every repetition counted."""
        return int(self.repeat[self.is_transfer].sum(dtype=np.int64))

    @property
    def listed(self) -> bool:
        """Whether every entry is one transfer or local step, so that `expand` gives the schedule itself."""
        once = not self.chained.size and bool((self.repeat == 1).all())
        return once and self.spans is None and bool(self.moves_data.all())

    def expand(self) -> "Schedule":
        """The schedule as a list of transfers and local steps. Computations take no time in it. Raises
        FabricError where that is too long a list."""
        return self if self.listed else self._expanded

    @cached_property
    def _expanded(self) -> "Schedule":
        from railweave.framework.model.expansion import expanded

        return expanded(self, self.moves_data)

    @cached_property
    def transfers(self) -> "Schedule":
        """The transfers alone as a list; each waits for what it waited for by way of local steps."""
        from railweave.framework.model.expansion import expanded

        return self if self.listed and self.is_transfer.all() else expanded(self, self.is_transfer)

    def pairs(self) -> tuple[Int64, Int64, Int64]:
        """(src, dst, bytes), (P,) each: what each pair of ranks that sends something sends; by src, then
        dst."""
        return self._pairs

    @cached_property
    def _pairs(self) -> tuple[Int64, Int64, Int64]:
        sent = np.flatnonzero(self.is_transfer)
        number = self.src[sent].astype(np.int64) * self.n_ranks + self.dst[sent]
        pairs, pair = np.unique(number, return_inverse=True)
        amount = np.bincount(pair, self.in_all(lambda size: size)[sent], len(pairs))
        return *np.divmod(pairs, max(1, self.n_ranks)), np.rint(amount).astype(np.int64)

    def wire_bits(self, packet: PacketFormat) -> Float:
        """(P,): what each of `pairs` sends in all, headers included. Kept: every forecast of a decision takes
        it."""
        if packet not in self._wire_bits:
            src, dst, _ = self.pairs()
            sent = np.flatnonzero(self.is_transfer)
            wire = 8.0 * self.in_all(packet.wire_bytes_of)[sent]
            number = self.src[sent].astype(np.int64) * self.n_ranks + self.dst[sent]
            place = np.searchsorted(src * self.n_ranks + dst, number)
            bits = np.bincount(place, wire, len(src)).astype(np.float64)
            self._wire_bits[packet] = readonly(bits, np.float64)
        return self._wire_bits[packet]

    @cached_property
    def _wire_bits(self) -> dict[PacketFormat, Float]:
        return {}

    def per_repetition(self, amount: Amount) -> tuple[Int64, Float]:
        """(start (n+1,), values): `amount` of the bytes of every repetition of each entry, or one value where
        they are alike."""
        return per_repetition(self, amount)

    @cached_property
    def blocks_alike(self) -> Int64:
        """The block of each entry whose repetitions go through lists of spans, in order, numbered from 0: one
        for all whose phase, size and repetitions are the same."""
        in_list = np.flatnonzero(self.spans.chunks) if self.spans else np.empty(0, np.int64)
        columns = (self.phase, self.size, self.repeat, np.maximum(self.lag, 1))
        rows = np.stack([column[in_list] for column in columns])
        return readonly(np.unique(rows, axis=1, return_inverse=True)[1], np.int64)

    def in_all(self, amount: Amount) -> Float:
        """(n,): `amount` of the bytes of every repetition of an entry, added up."""
        return in_all(self, amount)
