"""Reads an algorithm in MSCCL's XML, with the line of each step; checks all that can be checked element by
element.

    <algo name coll nchunksperloop ngpus> <gpu id s_chunks> <tb id send recv chan>
    <step s type srcbuf srcoff dstbuf dstoff cnt depid deps/> </tb> </gpu> </algo>

A thread block (tb) executes its steps in order, sends to one GPU and receives from one, over one channel;
`depid` and `deps` name a step of another block of the same GPU that must come before. Other attributes are
not needed.
"""

from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from railweave.framework.errors import ExperimentError

KINDS = {
    "allreduce": "all-reduce",
    "allgather": "all-gather",
    "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}
SENDS = frozenset({"s", "rcs", "rrs", "rrcs"})
RECEIVES = frozenset({"r", "rcs", "rrs", "rrc", "rrcs"})
REDUCES = frozenset({"rrs", "rrc", "rrcs"})
STEPS = SENDS | RECEIVES | {"cpy", "nop"}
BUFFERS = ("i", "o", "s")
PARENT = {"algo": None, "gpu": "algo", "tb": "gpu", "step": "tb"}
LARGEST_FILE = 64 << 20

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
    line: int
    steps: list[Step] = field(default_factory=list)


@dataclass(slots=True)
class Gpu:
    scratch: int
    blocks: dict[int, Block] = field(default_factory=dict)


@dataclass(slots=True)
class Algorithm:
    """The whole file. `chunks`: the parts of the larger one of a rank's two buffers."""

    name: str
    kind: str
    chunks: int
    n_ranks: int
    path: str
    gpus: dict[int, Gpu] = field(default_factory=dict)

    def refuse(self, line: int, why: str) -> ExperimentError:
        return ExperimentError(f"{self.path}, line {line}: {why}")


def read(path: str) -> Algorithm:
    """The algorithm in a file. Raises ExperimentError with file, line and the fix."""
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise ExperimentError(
            f"{path} cannot be read: {error.strerror}. Give an MSCCL XML file: msccl:FILE."
        ) from None
    return parse(data, path)


def parse(data: bytes, path: str) -> Algorithm:
    """The algorithm in these bytes; `path` is for messages."""
    if len(data) > LARGEST_FILE:
        raise ExperimentError(
            f"{path}: {len(data)} bytes are more than {LARGEST_FILE}; use a smaller algorithm."
        )
    parser = expat.ParserCreate()
    reader = _Reader(parser, path)
    parser.StartElementHandler = reader.start
    parser.EndElementHandler = reader.end
    parser.StartDoctypeDeclHandler = reader.doctype
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise ExperimentError(
            f"{path}, line {error.lineno}: this is not XML ({expat.ErrorString(error.code)}). "
            "Give an algorithm as MSCCL writes it."
        ) from None
    assert reader.algorithm is not None  # a well-formed document has one root, and only <algo> is taken
    missing = set(range(reader.algorithm.n_ranks)) - set(reader.algorithm.gpus)
    if missing:
        raise reader.refuse(f"<algo> has ngpus {reader.algorithm.n_ranks} but no <gpu> {min(missing)}.")
    return reader.algorithm


class _Reader:
    def __init__(self, parser: expat.XMLParserType, path: str) -> None:
        self._parser, self._path = parser, path
        self._open: list[str] = []
        self.algorithm: Algorithm | None = None

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
        {"algo": self._algo, "gpu": self._gpu, "tb": self._tb, "step": self._step}[tag]()

    def _algo(self) -> None:
        coll = self._text("coll")
        if coll not in KINDS:
            raise self.refuse(f"coll {coll!r} is not supported; there are {', '.join(KINDS)}.")
        chunks, n = (self._whole(key, 1) for key in ("nchunksperloop", "ngpus"))
        if coll != "allreduce" and chunks % n:
            raise self.refuse(
                f"nchunksperloop {chunks} does not give each of {n} GPUs as many chunks in {coll}."
            )
        self.algorithm = Algorithm(
            self._attributes.get("name", "unnamed"), KINDS[coll], chunks, n, self._path
        )

    def _gpu(self) -> None:
        assert self.algorithm is not None
        number = self._whole("id", 0)
        if number >= self.algorithm.n_ranks or number in self.algorithm.gpus:
            twice = number in self.algorithm.gpus
            why = "appears twice" if twice else f"is not below ngpus {self.algorithm.n_ranks}"
            raise self.refuse(f"<gpu> id {number} {why}.")
        scratch = self._whole("s_chunks", 0) if "s_chunks" in self._attributes else 0
        self._of_gpu = self.algorithm.gpus[number] = Gpu(scratch)
        self._number = number

    def _tb(self) -> None:
        assert self.algorithm is not None
        number = self._whole("id", 0)
        if number in self._of_gpu.blocks:
            raise self.refuse(f"<tb> id {number} appears twice in this <gpu>.")
        send, recv = (self._whole(key, -1) for key in ("send", "recv"))
        for key, peer in (("send", send), ("recv", recv)):
            if peer >= self.algorithm.n_ranks or peer == self._number:
                raise self.refuse(f"{key} {peer} is no other GPU of {self.algorithm.n_ranks}; -1 is none.")
        channel = self._whole("chan", 0)
        self._block = Block(send, recv, channel, self._parser.CurrentLineNumber)
        self._of_gpu.blocks[number] = self._block

    def _step(self) -> None:
        kind = self._text("type")
        if kind not in STEPS:
            raise self.refuse(
                f"step type {kind!r} is not supported; there are {', '.join(sorted(STEPS))}. Reduce while "
                "receiving: use rrc instead of r and re."
            )
        number = self._whole("s", 0)
        if number != len(self._block.steps):
            raise self.refuse(f"step s {number} follows {len(self._block.steps) - 1}; steps count up from 0.")
        if (kind in SENDS and self._block.send < 0) or (kind in RECEIVES and self._block.recv < 0):
            key = "send" if kind in SENDS and self._block.send < 0 else "recv"
            raise self.refuse(f"step type {kind} needs a peer, and the <tb> has {key} -1.")
        src, dst, count = ("i", 0), ("i", 0), 0
        if kind != "nop":
            src, dst, count = self._place("src"), self._place("dst"), self._whole("cnt", 1)
        depid, deps = (self._whole(key, -1) for key in ("depid", "deps"))
        needs = (depid, deps) if depid >= 0 and deps >= 0 else None
        self._block.steps.append(Step(kind, src, dst, count, needs, self._parser.CurrentLineNumber))

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
