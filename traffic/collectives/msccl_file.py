"""Reads an algorithm in MSCCL's XML, with the line of each step; checks all that can be checked element by
element.

    <algo name coll nchunksperloop ngpus inplace> <gpu id i_chunks o_chunks s_chunks> <tb id send recv chan>
    <step s type srcbuf srcoff dstbuf dstoff cnt depid deps/> </tb> </gpu> </algo>

A thread block (tb) executes its steps in order, sends to one GPU and receives from one, over one channel;
`depid` and `deps` name a step of another block of the same GPU that must come before. Other attributes are
not needed.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from railweave.framework.errors import ExperimentError

CUSTOM = "custom"
KINDS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reducescatter": "reduce-scatter",
    "alltoall": "all-to-all",
    "broadcast": "broadcast",
    CUSTOM: CUSTOM,
}
"""By the name in the file, in any case, with or without - and _: the compiler of msccl-tools writes
reduce_scatter, its other half and rccl reducescatter."""
UNSUPPORTED = (
    f"is not supported; there are {', '.join(KINDS)}. As {CUSTOM} it runs, and what it leaves is not checked."
)
SHARDED = frozenset({"all-gather", "reduce-scatter", "all-to-all"})
SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
REDUCES = frozenset({"rrs", "rrc", "rrcs"})
STEPS = SENDS | RECEIVES | {"cpy", "re", "nop"}
BUFFERS = ("i", "o", "s")
PARENT = {"algo": None, "gpu": "algo", "tb": "gpu", "step": "tb"}
LARGEST_FILE = 64 << 20
"""Bytes of a file that is read; parsed XML takes several times as much memory."""

Place = tuple[str, int]
"""A buffer (i, o, s) and a chunk in it."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step; `needs` is (thread block, step) of the same GPU or None."""

    type: str
    src: Place
    dst: Place
    count: int
    needs: tuple[int, int] | None
    line: int


@dataclass(slots=True)
class Block:
    """A thread block; a peer is -1 if it has none."""

    send: int
    recv: int
    channel: int
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class Gpu:
    """The chunks of its buffers, -1 where the file does not say, and its thread blocks."""

    input: int
    output: int
    scratch: int
    blocks: dict[int, Block] = field(default_factory=dict)


@dataclass(slots=True)
class Algorithm:
    """The whole file. `chunks`: the parts of the larger one of a rank's two buffers; `in_place`: whether they
    share the memory that they have in common."""

    name: str
    kind: str
    chunks: int
    n_ranks: int
    path: str
    in_place: bool = False
    gpus: dict[int, Gpu] = field(default_factory=dict)

    def refuse(self, where: int | str, why: str) -> ExperimentError:
        """`where`: a line, or a place in words."""
        return ExperimentError(f"{self.path}, {where if isinstance(where, str) else f'line {where}'}: {why}")

    @property
    def ways(self) -> Sequence[tuple[bool, bool]]:
        """(input and output apart, messages staged): the ways to carry it out that are tried in turn."""
        ways = [(False, False), (False, True)] if self.kind != CUSTOM else []
        return ways if self.in_place and ways else [*ways, (True, True)]

    @property
    def shard(self) -> int:
        """Chunks of a rank's part."""
        return self.chunks // self.n_ranks if self.kind in SHARDED else self.chunks

    def memory(self, *, apart: bool) -> "Memory":
        """Where the chunks of its buffers lie. Input and output share the memory that they have in common, as
        NCCL allows:

            all-reduce, broadcast  one buffer, which is input and output
            all-gather      the output; its input is its own shard in it
            reduce-scatter  the input, its own shard first and the others round in order; its output is that
                            shard
            all-to-all      the output, then the input; its slice for itself is one chunk of both

        With `apart`, as in custom algorithms, the output is followed by the input as above. Scratch chunks
        stand behind both.
        """
        n, shard = self.chunks, self.shard
        behind = n if apart and self.kind != "all-to-all" else 0
        places: dict[tuple[int, str], list[int]] = {}
        for rank, gpu in self.gpus.items():
            own_shard = range(rank * shard, (rank + 1) * shard)
            output, input_ = list(range(n)), list(range(n))
            match self.kind:
                case "all-gather":
                    input_ = list(own_shard)
                case "reduce-scatter":
                    output, input_ = output[:shard], [(i - own_shard.start) % n for i in range(n)]
                case "all-to-all":
                    input_ = [i if i in own_shard and not apart else n + i for i in range(n)]
                case "custom":
                    output = output[: n if gpu.output < 0 else gpu.output]
                    input_ = input_[: n if gpu.input < 0 else gpu.input]
            places[rank, "o"], places[rank, "i"] = output, [behind + i for i in input_]
        scratch = 2 * n if behind or self.kind == "all-to-all" else n
        for rank, gpu in self.gpus.items():
            places[rank, "s"] = list(range(scratch, scratch + gpu.scratch))
        return Memory(places, behind, scratch, scratch + max(gpu.scratch for gpu in self.gpus.values()))


@dataclass(frozen=True, slots=True)
class Memory:
    """`places`: the chunks of a rank's memory that are one of its buffers (i, o, s); `input`: where what the
    operation calls a rank's input begins, `scratch`: where its scratch chunks do; `size`: chunks of every
    rank's memory."""

    places: Mapping[tuple[int, str], list[int]]
    input: int
    scratch: int
    size: int


def kind_of(collective: str) -> str | None:
    """The kind that a file calls so, None if there is none."""
    return KINDS.get(collective.lower().replace("_", "").replace("-", ""))


def contents(path: str) -> bytes:
    """The bytes of a file. Raises ExperimentError with the file and the fix."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ExperimentError(
            f"{path} cannot be read: {error.strerror}. Give an MSCCL XML file or an MSCCL++ execution plan: "
            "msccl:FILE."
        ) from None
    if len(data) > LARGEST_FILE:
        raise ExperimentError(
            f"{path}: {len(data)} bytes are more than {LARGEST_FILE}; use a smaller algorithm."
        )
    return data


def parse(data: bytes, path: str) -> Algorithm:
    """The algorithm in these bytes; `path` is for messages. Raises ExperimentError with file, line and the
    fix."""
    parser = expat.ParserCreate()
    reader = _AlgorithmReader(parser, path)
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ExperimentError(
            f"{path}, line {error.lineno}: this is not XML ({expat.ErrorString(error.code)}). "
            "Give an algorithm as MSCCL writes it, or a plan of MSCCL++, which begins with {."
        ) from None
    algorithm = reader.algorithm  # a well-formed document has one root, and only <algo> is taken
    missing = set(range(algorithm.n_ranks)) - set(algorithm.gpus)
    if missing:
        raise reader.refuse(f"<algo> has ngpus {algorithm.n_ranks} but no <gpu> {min(missing)}.")
    return algorithm


class _AlgorithmReader:
    algorithm: Algorithm  # from <algo> on, which is the first element

    def __init__(self, parser: expat.XMLParserType, path: str) -> None:
        self._parser, self._path = parser, path
        self._open: list[str] = []
        parser.StartElementHandler = self.start
        parser.EndElementHandler = self.end
        parser.StartDoctypeDeclHandler = self.doctype

    def refuse(self, why: str) -> ExperimentError:
        return ExperimentError(f"{self._path}, line {self._parser.CurrentLineNumber}: {why}")

    def doctype(self, *_: object) -> None:
        raise self.refuse("a document type does not belong in an MSCCL algorithm. Remove it.")

    def end(self, _: str) -> None:
        self._open.pop()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        if tag not in PARENT:
            raise self.refuse(f"<{tag}> is not supported; there are <algo>, <gpu>, <tb> and <step>.")
        above = self._open[-1] if self._open else None
        if PARENT[tag] != above:
            where = f"in <{PARENT[tag]}>" if PARENT[tag] else "at the top"
            raise self.refuse(f"<{tag}> belongs {where}, not {f'in <{above}>' if above else 'at the top'}.")
        self._open.append(tag)
        self._attributes = attributes
        {"algo": self._read_algo, "gpu": self._read_gpu, "tb": self._read_tb, "step": self._read_step}[tag]()

    def _read_algo(self) -> None:
        coll = self._text("coll")
        kind = kind_of(coll)
        if kind is None:
            raise self.refuse(f"coll {coll!r} {UNSUPPORTED}")
        chunks, n = (self._whole(key, 1) for key in ("nchunksperloop", "ngpus"))
        if kind in SHARDED and chunks % n:
            raise self.refuse(
                f"nchunksperloop {chunks} does not give each of {n} GPUs as many chunks in {coll}."
            )
        name, in_place = self._attributes.get("name", "unnamed"), self._attributes.get("inplace") == "1"
        self.algorithm = Algorithm(name, kind, chunks, n, self._path, in_place)

    def _read_gpu(self) -> None:
        gpus, number = self.algorithm.gpus, self._whole("id", 0)
        if number in gpus:
            raise self.refuse(f"<gpu> id {number} appears twice.")
        if number >= self.algorithm.n_ranks:
            raise self.refuse(f"<gpu> id {number} is not below ngpus {self.algorithm.n_ranks}.")
        inside = [
            self._whole(key, 0) if key in self._attributes else default
            for key, default in (("i_chunks", -1), ("o_chunks", -1), ("s_chunks", 0))
        ]
        if self.algorithm.kind == CUSTOM and max(inside[:2]) > self.algorithm.chunks:
            raise self.refuse(
                f"<gpu> has {max(inside[:2])} chunks in a buffer, and nchunksperloop is "
                f"{self.algorithm.chunks}. Raise that to the most of any buffer."
            )
        self._gpu = gpus[number] = Gpu(inside[0], inside[1], inside[2])
        self._number = number

    def _read_tb(self) -> None:
        number, n = self._whole("id", 0), self.algorithm.n_ranks
        if number in self._gpu.blocks:
            raise self.refuse(f"<tb> id {number} appears twice in this <gpu>.")
        send, recv = (self._whole(key, -1) for key in ("send", "recv"))
        for key, peer in (("send", send), ("recv", recv)):
            if peer >= n or peer == self._number:
                raise self.refuse(f"{key} {peer} is no other GPU of {n}; -1 is none.")
        self._block = self._gpu.blocks[number] = Block(send, recv, self._whole("chan", 0))

    def _read_step(self) -> None:
        kind = self._text("type")
        if kind not in STEPS:
            raise self.refuse(
                f"step type {kind!r} is not supported; there are {', '.join(sorted(STEPS))}. Write it with "
                "these."
            )
        block, number = self._block, self._whole("s", 0)
        if number != len(block.steps):
            raise self.refuse(f"step s {number} follows {len(block.steps) - 1}; steps count up from 0.")
        for key, peer, kinds in (("send", block.send, SENDS), ("recv", block.recv, RECEIVES)):
            if kind in kinds and peer < 0:
                raise self.refuse(f"step type {kind} needs a peer, and the <tb> has {key} -1.")
        src, dst, count = ("i", 0), ("i", 0), 0
        if kind != "nop":
            src, dst, count = self._place("src"), self._place("dst"), self._whole("cnt", 1)
        depid, deps = (self._whole(key, -1) for key in ("depid", "deps"))
        needs = (depid, deps) if depid >= 0 and deps >= 0 else None
        block.steps.append(Step(kind, src, dst, count, needs, self._parser.CurrentLineNumber))

    def _place(self, end: str) -> Place:
        buffer = self._text(f"{end}buf")
        if buffer not in BUFFERS:
            raise self.refuse(f"{end}buf {buffer!r} is no buffer; there are {', '.join(BUFFERS)}.")
        return buffer, self._whole(f"{end}off", -1)

    def _text(self, key: str) -> str:
        if key not in self._attributes:
            raise self.refuse(f"<{self._open[-1]}> lacks {key}.")
        return self._attributes[key]

    def _whole(self, key: str, least: int) -> int:
        text = self._text(key)
        try:
            value = int(text)
        except ValueError:
            raise self.refuse(f"{key} {text!r} of <{self._open[-1]}> is not a whole number.") from None
        if value < least:
            raise self.refuse(f"{key} {value} of <{self._open[-1]}> is below {least}.")
        return value
