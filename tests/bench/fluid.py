"""The engine `fluid` in full: seconds by stage and memory of every row, their growth, and SimGrid's times."""

import math
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from railweave.bench import simgrid
from railweave.bench.fluid_rows import COLD, GROWTH, ROWS
from railweave.framework.bench.fluid import QUICK, FluidCase, figures, measured, shown
from railweave.framework.errors import InputError, MachineError, did_you_mean

PEER_WITHIN_S = 120.0


def fluid(rows: str, growth: bool, quick: bool, report: Callable[[str], None]) -> dict[str, Any]:
    """`rows`: those whose names contain one of these words, all if empty; `growth`: families of doubling GPUs
    as well. `quick`: two small rows.

    Rows run with full caches of compiled code, Python's and numba's; `cold_s`: the row `COLD` with empty
    ones. `total_s` on the wall clock, from starting the process to its end; all other seconds of the
    processor. `passes`: how often the routes could be copied in the time that was solved in. `batch_error`:
    see there. Rows that fail say why. Where SimGrid is installed: what it takes for the same flows, and by
    how much it differs.
    """
    chosen = QUICK if quick else _chosen(rows)
    cold, table, grown = dict[str, Any](), [], {}
    with tempfile.TemporaryDirectory(prefix="railweave-bench-") as scratch:
        place = Path(scratch)
        if not quick:
            report(f"{COLD.name}, with empty caches of compiled code")
            cold = measured(COLD, place)
            measured(COLD, place)  # numba writes its cache in two runs
        program = simgrid.driver(place)
        for row in chosen:
            report(row.name)
            line = shown(row, measured(row, place, own_caches=not quick))
            if program is not None and row.peer:
                try:
                    line |= simgrid.compared(program, row.keys, PEER_WITHIN_S)
                except MachineError as error:
                    report(str(error))
            table.append(line)
        for family, members in GROWTH.items() if growth and not quick else ():
            report(f"growth: {family}")
            grown[family] = exponents([measured(row, place) for row in members])
    return figures(table, report, cold=cold, growth=grown)


def _chosen(words: str) -> tuple[FluidCase, ...]:
    """Raises InputError for a word that no row has."""
    wanted = [word.strip() for word in words.split(",") if word.strip()]
    for word in wanted:
        if not any(word in row.name for row in ROWS):
            names = [row.name for row in ROWS]
            raise InputError(
                f"rows: no row has {word!r} in its name; there are: {'; '.join(names)}."
                f"{did_you_mean(word, names)}"
            )
    return tuple(row for row in ROWS if not wanted or any(word in row.name for word in wanted))


def exponents(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """GPUs, processor seconds, memory; and the exponents of both by the GPUs, first against last."""
    if failed := [run["error"] for run in runs if "error" in run]:
        return {"error": failed[0]}
    gpus = [run["gpus"] for run in runs]
    columns = {name: [run[name] for run in runs] for name in ("cpu_s", "memory_mb")}
    doublings = math.log(gpus[-1] / gpus[0])
    return {
        "gpus": tuple(gpus),
        **{name: tuple(column) for name, column in columns.items()},
        **{
            f"{name}_exponent": math.log(column[-1] / column[0]) / doublings
            for name, column in columns.items()
        },
    }
