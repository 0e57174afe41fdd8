"""Reads SimCCL's flow models, `ncclFlowModel_detailed_flows.csv`: one line for every point-to-point flow.

Columns are found by their names; read are collective, flow_id, src, dest, flow_size and parent_flow_ids (ids
with `;` between them). What the file calls prev_flow_ids are ranks, those a flow's sender receives from, and
adds nothing to the parents. Source: SimCCL, docs/getting_started/quickstart.md and dumpDetailedFlowModels of
mock/v2.20 and mock/v2.30 (without and with the columns algorithm and protocol).
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from railweave.framework.errors import ExperimentError
from railweave.framework.model.arrays import Int64

COLUMNS = ("collective", "flow_id", "src", "dest", "flow_size", "parent_flow_ids")
MOST_FLOWS = 1 << 21
"""Flows of a file at most; each is a record while it is read."""
LARGEST = 1 << 50
"""Largest number and size in bytes of a file; what is larger is taken for a mistake."""


@dataclass(frozen=True)
class FlowColumns:
    """The flows in the order of the file, as arrays of one entry a flow. `line`: where it stands;
    `collective`: index into `names`; `size` in bytes; `parent_start` (n + 1,) into `parent`, the flows that
    it waits for."""

    path: str
    names: tuple[str, ...]
    line: Int64
    collective: Int64
    src: Int64
    dst: Int64
    size: Int64
    parent_start: Int64
    parent: Int64

    @property
    def n_ranks(self) -> int:
        """As many ranks as the flows need."""
        return 1 + int(max(self.src.max(), self.dst.max()))

    @property
    def waiting(self) -> Int64:
        """The flow that waits for each entry of `parent`."""
        return np.repeat(np.arange(len(self.src)), np.diff(self.parent_start))

    def refuse(self, flow: int, why: str) -> ExperimentError:
        return ExperimentError(f"{self.path}:{self.line[flow]}: {why}")


def read(path: str) -> FlowColumns:
    """Raises ExperimentError with file, line and the fix."""
    try:
        with Path(path).open(newline="", encoding="utf-8") as file:
            return _flows(path, csv.reader(file, strict=True))
    except OSError as error:
        raise ExperimentError(
            f"{path} cannot be read: {error.strerror}. Give the file: simccl:FILE."
        ) from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise ExperimentError(f"{path} is no CSV text: {error}. Write it again.") from None


def _flows(path: str, rows: Iterator[list[str]]) -> FlowColumns:
    header = next(rows, [])
    if missing := [name for name in COLUMNS if name not in header]:
        raise ExperimentError(
            f"{path}:1: the columns {', '.join(missing)} are missing. Give SimCCL's "
            "ncclFlowModel_detailed_flows.csv with its header."
        )
    at = [header.index(name) for name in COLUMNS]
    kind = header.index("conn_type") if "conn_type" in header else None
    names: dict[str, int] = {}
    number: dict[int, int] = {}
    table, parents = list[tuple[int, ...]](), list[tuple[int, ...]]()
    for line, row in enumerate(rows, 2):
        if not row:
            continue
        if len(row) != len(header):
            raise ExperimentError(
                f"{path}:{line}: {len(row)} fields; the header has {len(header)}. Fix the line."
            )
        if kind is not None and row[kind].startswith("NVLS"):
            raise ExperimentError(
                f"{path}:{line}: a flow of kind {row[kind]} goes through an NVSwitch that reduces, which no "
                "fabric has here. Make the file with AS_NVLS_ENABLE=0."
            )
        name, *fields, waits = (row[i] for i in at)
        flow, src, dst, size = (_whole(path, line, *pair) for pair in zip(COLUMNS[1:5], fields, strict=True))
        if src == dst:
            raise ExperimentError(f"{path}:{line}: flow {flow} goes from rank {src} to itself. Leave it out.")
        if number.setdefault(flow, len(table)) != len(table):
            first = table[number[flow]][0]
            raise ExperimentError(f"{path}:{line}: flow {flow} stands in line {first}, too. Remove one.")
        table.append((line, names.setdefault(name, len(names)), src, dst, size))
        parents.append(tuple(_whole(path, line, COLUMNS[5], word) for word in waits.split(";") if word))
        if len(table) > MOST_FLOWS:
            raise ExperimentError(f"{path} has more than {MOST_FLOWS} flows. Make one of fewer collectives.")
    if not table:
        raise ExperimentError(f"{path} has no flows, only a header. Make it of a collective that sends.")
    line_of, collective, src_of, dst_of, bytes_of = np.array(table, np.int64).T
    start = np.cumsum([0, *map(len, parents)])
    try:
        parent = np.array([number[flow] for waits in parents for flow in waits], np.int64)
    except KeyError:
        line, flow = next(
            (table[i][0], flow) for i, waits in enumerate(parents) for flow in waits if flow not in number
        )
        raise ExperimentError(
            f"{path}:{line}: it waits for flow {flow}, which is not in the file. Fix the line."
        ) from None
    return FlowColumns(path, tuple(names), line_of, collective, src_of, dst_of, bytes_of, start, parent)


def _whole(path: str, line: int, name: str, word: str) -> int:
    if not (word.isascii() and word.isdecimal() and int(word) <= LARGEST):
        raise ExperimentError(
            f"{path}:{line}: {name} {word!r} is not a whole number from 0 to {LARGEST}. Fix the line."
        )
    return int(word)
