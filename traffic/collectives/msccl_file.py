"""Reads an algorithm in MSCCL's XML: what it says, checked as far as one element can be, with the line of each step.

    <algo name coll nchunksperloop ngpus> <gpu id s_chunks> <tb id send recv chan>
    <step s type srcbuf srcoff dstbuf dstoff cnt depid deps/> </tb> </gpu> </algo>

A thread block (tb) does its steps in order, sends to one GPU and receives from one, over one channel; `depid` and
`deps` name a step of another block of the same GPU that must be done before. Other attributes are not needed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from xml.parsers import expat

from railweave.framework.errors import ExperimentError

KINDS = {
    "allreduce": "all-reduce", "allgather": "all-gather", "reduce_scatter": "reduce-scatter",
    "alltoall": "all-to-all",
}  # fmt: skip
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
    """A thread block; peers are -1 where it has none."""

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
    """The whole file. `chunks`: parts of the larger of a rank's two buffers."""

    name: str
    kind: str
    chunks: int
    n_ranks: int
    path: str
    gpus: dict[int, Gpu] = field(default_factory=dict)

    def refuse(self, line: int, why: str) -> ExperimentError:
        return ExperimentError(f"{self.path}, line {line}: {why}")


def read(path: str) -> Algorithm:
    """The algorithm in a file. Raises ExperimentError with file, line and the mend."""
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
        raise self.refuse("a document type has no place in an MSCCL algorithm. Remove it.")

    def end(self, _: str) -> None:
        self._open.pop()

    def start(self, tag: str, given: dict[str, str]) -> None:
        if tag not in PARENT:
            raise self.refuse(f"<{tag}> is not supported; there are <algo>, <gpu>, <tb> and <step>.")
        above = self._open[-1] if self._open else None
        if PARENT[tag] != above:
            where = f"in <{PARENT[tag]}>" if PARENT[tag] else "at the top"
            raise self.refuse(f"<{tag}> belongs {where}, not {f'in <{above}>' if above else 'at the top'}.")
        self._open.append(tag)
        getattr(self, f"_{tag}")(given)

    def _algo(self, given: Mapping[str, str]) -> None:
        coll = self._text("algo", given, "coll")
        if coll not in KINDS:
            raise self.refuse(f"coll {coll!r} is not supported; there are {', '.join(KINDS)}.")
        chunks, n = (self._whole("algo", given, key, 1) for key in ("nchunksperloop", "ngpus"))
        if coll != "allreduce" and chunks % n:
            raise self.refuse(
                f"nchunksperloop {chunks} does not give each of {n} GPUs as many chunks in {coll}."
            )
        self.algorithm = Algorithm(given.get("name", "unnamed"), KINDS[coll], chunks, n, self._path)

    def _gpu(self, given: Mapping[str, str]) -> None:
        assert self.algorithm is not None
        number = self._whole("gpu", given, "id", 0)
        if number >= self.algorithm.n_ranks or number in self.algorithm.gpus:
            why = (
                "is there twice"
                if number in self.algorithm.gpus
                else f"is not below ngpus {self.algorithm.n_ranks}"
            )
            raise self.refuse(f"<gpu> id {number} {why}.")
        scratch = self._whole("gpu", given, "s_chunks", 0) if "s_chunks" in given else 0
        self._of_gpu = self.algorithm.gpus[number] = Gpu(scratch)
        self._number = number

    def _tb(self, given: Mapping[str, str]) -> None:
        assert self.algorithm is not None
        number = self._whole("tb", given, "id", 0)
        if number in self._of_gpu.blocks:
            raise self.refuse(f"<tb> id {number} is there twice in this <gpu>.")
        send, recv = (self._whole("tb", given, key, -1) for key in ("send", "recv"))
        for key, peer in (("send", send), ("recv", recv)):
            if peer >= self.algorithm.n_ranks or peer == self._number:
                raise self.refuse(f"{key} {peer} is no other GPU of {self.algorithm.n_ranks}; -1 is none.")
        channel = self._whole("tb", given, "chan", 0)
        self._block = Block(send, recv, channel, self._parser.CurrentLineNumber)
        self._of_gpu.blocks[number] = self._block

    def _step(self, given: Mapping[str, str]) -> None:
        kind = self._text("step", given, "type")
        if kind not in STEPS:
            raise self.refuse(
                f"step type {kind!r} is not supported; there are {', '.join(sorted(STEPS))}. Reduce on the way: "
                "receive with rrc instead of r and re."
            )
        number = self._whole("step", given, "s", 0)
        if number != len(self._block.steps):
            raise self.refuse(f"step s {number} follows {len(self._block.steps) - 1}; steps count up from 0.")
        if (kind in SENDS and self._block.send < 0) or (kind in RECEIVES and self._block.recv < 0):
            way = "send" if kind in SENDS and self._block.send < 0 else "recv"
            raise self.refuse(f"step type {kind} needs a peer, and the <tb> has {way} -1.")
        needs = None
        if kind == "nop":
            src = dst = ("i", 0)
            count = 0
        else:
            src, dst = (self._place(given, end) for end in ("src", "dst"))
            count = self._whole("step", given, "cnt", 1)
        depid, deps = (self._whole("step", given, key, -1) for key in ("depid", "deps"))
        if depid >= 0 and deps >= 0:
            needs = (depid, deps)
        self._block.steps.append(Step(kind, src, dst, count, needs, self._parser.CurrentLineNumber))

    def _place(self, given: Mapping[str, str], end: str) -> Place:
        buffer = self._text("step", given, f"{end}buf")
        if buffer not in BUFFERS:
            raise self.refuse(f"{end}buf {buffer!r} is no buffer; there are {', '.join(BUFFERS)}.")
        return buffer, self._whole("step", given, f"{end}off", -1)

    def _text(self, tag: str, given: Mapping[str, str], key: str) -> str:
        if key not in given:
            raise self.refuse(f"<{tag}> lacks {key}.")
        return given[key]

    def _whole(self, tag: str, given: Mapping[str, str], key: str, least: int) -> int:
        text = self._text(tag, given, key)
        try:
            value = int(text)
        except ValueError:
            raise self.refuse(f"{key} {text!r} of <{tag}> is not a whole number.") from None
        if value < least:
            raise self.refuse(f"{key} {value} of <{tag}> is below {least}.")
        return value
