"""Items computed one after the other: what each came to, by which method, and what it took."""

import re
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from railweave.framework.errors import RailweaveError
from railweave.framework.papers.items.item import Claims, Item
from railweave.framework.papers.items.recorded import Recorded, recorded
from railweave.framework.papers.items.workbench import Workbench
from railweave.framework.processes.memory import peak_bytes

NOT_YET, LAB = "not there yet", "lab"
_PEAK = re.compile(r"^VmHWM:\s+(\d+) kB$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Computed:
    """An item and its outcome; of one that is not there yet, or whose computation raised `error`, None."""

    item: Item
    outcome: Claims | None
    method: str
    seconds: float = 0.0
    peak_mb: float = 0.0
    error: RailweaveError | None = None

    @property
    def state(self) -> str:
        """`computed`, `not there yet` or `failed`."""
        if self.outcome is not None:
            return "computed"
        return NOT_YET if self.error is None else "failed"

    @property
    def lab(self) -> Recorded | None:
        """What the item came to on a lab, where it was computed elsewhere."""
        return None if self.method == LAB else recorded().get(self.item.id)

    @property
    def why(self) -> str:
        """Why ours differs; else what is missing, or what failed."""
        if self.error is not None:
            return f"failed: {self.error}"
        return self.item.why if self.outcome is not None else f"{NOT_YET}: {self.item.missing}"


def computed(
    items: Iterable[Item], workbench: Workbench, inputs: Mapping[str, object] | None = None
) -> Iterator[Computed]:
    """Each item with its outcome, as it is computed; an item that raises a RailweaveError has it."""
    for item in items:
        method = method_of(item, workbench)
        if item.compute is None:
            yield Computed(item, None, method)
            continue
        outcome, error = None, None
        began = time.perf_counter()
        _forget_peak()
        try:
            outcome = item.outcome(workbench, **(inputs or {}))
        except RailweaveError as raised:
            error = raised
        yield Computed(item, outcome, method, time.perf_counter() - began, _peak_mb(), error)


def method_of(item: Item, workbench: Workbench) -> str:
    """`formula`, `LP` or `ILP`; of a run the engine, or `lab` where that has packets; `-` where nothing
    computes the item."""
    if item.compute is None:
        return "-"
    if item.method != "run":
        return item.method
    engine = workbench.registers["engine"][workbench.engine]
    return LAB if engine.packets else workbench.engine


def _forget_peak() -> None:
    """Let the kernel measure this process's largest memory anew (proc(5), clear_refs); elsewhere the peak is
    that of the process so far."""
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return


def _peak_mb() -> float:
    """The largest resident memory since then, in MB."""
    try:
        match = _PEAK.search(Path("/proc/self/status").read_text())
    except OSError:
        match = None
    if match:
        return int(match[1]) * 1024 / 1e6
    return (peak_bytes() or 0) / 1e6
