"""Where the chunks of an MSCCL algorithm lie in a rank's memory, and what a correct algorithm leaves in them.

All runs are in place: input and output share the memory that they have in common, as NCCL allows. So every
rank has

    all-reduce      its buffer, which is input and output
    all-gather      the output; its input is its own shard in it
    reduce-scatter  the input, its own shard first and the others round in order; its output is that shard
    all-to-all      the output, then the input; its slice for itself is one chunk of both

and scratch chunks behind them.
"""

import numpy as np
from numpy.typing import NDArray

from railweave.traffic.collectives.msccl_file import Algorithm, Place


class Memory:
    """The layout for one algorithm, in chunks."""

    def __init__(self, algorithm: Algorithm) -> None:
        self._kind, self._n, self._chunks = algorithm.kind, algorithm.n_ranks, algorithm.chunks
        self._scratch = [algorithm.gpus[rank].scratch for rank in range(self._n)]
        self.shard = (
            algorithm.chunks if algorithm.kind == "all-reduce" else algorithm.chunks // algorithm.n_ranks
        )
        """Chunks of a rank's part."""
        self._behind = algorithm.chunks * (2 if algorithm.kind == "all-to-all" else 1)
        self.size = self._behind + max(self._scratch)
        """Chunks of a rank's memory."""
        self.result = self.shard if algorithm.kind == "reduce-scatter" else algorithm.chunks
        """Chunks, from the first one on, that hold the result."""
        self._names = np.random.default_rng(0).integers(1, 1 << 63, (self._n, self._chunks), np.uint64)

    def length(self, rank: int, buffer: str) -> int:
        """Chunks of one buffer of a rank."""
        if buffer == "s":
            return self._scratch[rank]
        small = {"all-gather": "i", "reduce-scatter": "o"}.get(self._kind)
        return self.shard if buffer == small else self._chunks

    def chunk(self, rank: int, place: Place) -> int:
        """The chunk of the rank's memory for a place, which must lie inside its buffer."""
        buffer, offset = place
        if buffer == "s":
            return self._behind + offset
        own = rank * self.shard
        match self._kind, buffer:
            case "all-gather", "i":
                return own + offset
            case "reduce-scatter", "i":
                return (offset - own) % self._chunks
            case "all-to-all", "i":
                return offset if own <= offset < own + self.shard else self._chunks + offset
            case _:
                return offset

    def start(self) -> NDArray[np.uint64]:
        """(ranks, size): a random number for each chunk's content; a sum of them identifies what was
        reduced."""
        content = np.zeros((self._n, self.size), np.uint64)
        for rank in range(self._n):
            for i in range(self.length(rank, "i")):
                content[rank, self.chunk(rank, ("i", i))] = self._names[rank, i]
        return content

    def expected(self, rank: int) -> NDArray[np.uint64]:
        """(result,): what the first chunks of a rank must hold in the end, in the numbers of `start`."""
        names, own = self._names, slice(rank * self.shard, (rank + 1) * self.shard)
        match self._kind:
            case "all-reduce":
                result = names.sum(axis=0, dtype=np.uint64)
            case "reduce-scatter":
                result = names[:, own].sum(axis=0, dtype=np.uint64)
            case "all-gather":
                result = names[:, : self.shard].ravel()
            case _:
                result = names[:, own].ravel()
        return np.asarray(result, np.uint64)
