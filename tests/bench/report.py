"""How long a report takes to make and how large it is, from a finished run."""

import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Any

from railweave.framework.experiment.plan import load_plan
from railweave.framework.page.data.directories import page_of_run
from railweave.framework.page.html import write_report
from railweave.framework.registry import Registers
from railweave.framework.results.directory import RunDirectory, read_result
from railweave.framework.runs import runner

SIDES = (4, 8, 16, 32)
"""Domains and rails of each row."""
TURNS = 5


def report_times(registers: Registers, quick: bool, progress: Callable[[str], None]) -> dict[str, Any]:
    """A row for each fabric: seconds from the result in memory to the file on disk (median of TURNS), as
    `run` does it at its end, and the bytes of the file."""
    rows = []
    for side in SIDES[:1] if quick else SIDES:
        progress(f"{side * side} GPUs")
        keys = {"topology.domains": side, "topology.rails": side, "engine": "fluid"}
        plan = load_plan(None, keys, registers)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run"
            runner.run(plan, registers, RunDirectory.create(path, ""), lambda event: None)
            result, seconds = read_result(path), []
            for _ in range(TURNS):
                began = time.perf_counter()
                write_report(page_of_run(path, registers, result=result), path / "report.html")
                seconds.append(time.perf_counter() - began)
            size = (path / "report.html").stat().st_size
        rows.append({"gpus": side * side, "seconds": median(seconds), "bytes": size})
    return {"rows": rows}
