"""The formats of `railweave export`."""

from collections.abc import Callable, Mapping
from pathlib import Path

from railweave.framework.errors import InputError
from railweave.framework.page.exports import inspector, perfetto, prometheus
from railweave.framework.page.exports.exported_run import ExportedRun, read_run
from railweave.framework.page.exports.tables import TABLES, as_csv, as_parquet
from railweave.framework.registry import Registers

TEXTS: Mapping[str, Callable[[ExportedRun], str]] = {
    "prometheus": prometheus.text_of,
    "inspector": inspector.lines_of,
    "perfetto": perfetto.trace_of,
}
BINARIES = {"csv": as_csv, "parquet": as_parquet}
FORMATS = (*TEXTS, *BINARIES)


def exported(path: Path, form: str, registers: Registers, table: str | None = None) -> bytes:
    """A run directory in one of FORMATS; `table`: of csv and parquet, one of TABLES, by default iterations.

    Raises InputError for what is no run directory, lacks what the format needs, or a table of another format.
    """
    if table is not None and form not in BINARIES:
        raise InputError(f"--table {table} goes with csv and parquet, not {form}. Leave it out.")
    run = read_run(path, registers)
    if form in TEXTS:
        return TEXTS[form](run).encode()
    return BINARIES[form](TABLES[table or "iterations"](run))
