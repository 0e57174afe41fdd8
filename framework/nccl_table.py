"""The table that nccl-tests prints, for a railweave result, with two columns behind it.

Formats: nccl-tests src/util.cu (column widths, decimals that shrink to fit, footer). What a run did not do (the
other placement) is left blank, as nccl-tests does when it replays one placement alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from railweave.framework.results import Row, RunResult

_HEAD = ("size", "count", "type", "redop", "root")
_UNITS = ("(B)", "(elements)", "", "", "")
_BLANK = " " * 33


def nccl_table(result: RunResult) -> str:
    """Header, a row per size (the mean of its iterations) and footer, ending in a newline."""
    sizes, asked = [row.size_bytes for row in result.summaries], result.experiment
    errors = sum(r.wrong > 0 for r in result.rows if r.iteration is not None)
    busbw = fmean(row.busbw_gbs for row in result.summaries)
    iterations = (len(result.rows) - len(sizes)) // len(sizes)
    settings = (
        f"# nThread 1 nGpus {result.fabric.gpus} minBytes {sizes[0]} maxBytes {sizes[-1]} step: {_step(asked)} "
        f"warmup iters: 0 iters: {iterations} agg iters: 1 validation: 1 graph: 0"
    )
    clock = (
        "# time, algbw, busbw and netbw are declared: of the machine whose rates the experiment gives. The emulated "
        f"fabric ran {_times(1 / result.fabric.rate_scale)} (rate scale {result.fabric.rate_scale:.6g}). "
        "limit: share of what the fabric's links allow."
    )
    lines = [
        settings,
        "#",
        clock,
        "#",
        f"# {'':>10}  {'':>12}  {'':>8}  {'':>6}  {'':>6}           out-of-place                       in-place          ",
        _header(_HEAD, ("time", "algbw", "busbw", "#wrong"), ("netbw", "limit")),
        _header(_UNITS, ("(us)", "(GB/s)", "(GB/s)", ""), ("(GB/s)", "")),
        *(_row(row, in_place=result.in_place) for row in result.summaries),
        f"# {'Out of bounds values':<20} : {errors} {'FAILED' if errors else 'OK'}",
        f"# {'Avg bus bandwidth':<20} : {busbw:g} ",
        "#",
        f"# Collective test concluded: {_name(asked)}",
    ]
    return "\n".join(line.rstrip() if not line.startswith("# Avg") else line for line in lines) + "\n"


def _row(row: Row, *, in_place: bool) -> str:
    """nccl-tests' columns, and behind them what the whole fabric carried and the ratio to its limit."""
    figures = "  ".join(
        (
            "",
            fitted(row.declared_time_us, 7),
            fitted(row.algbw_gbs, 6),
            fitted(row.busbw_gbs, 6),
            f"{row.wrong:6g}",
        )
    )
    cells = _BLANK + figures if in_place else figures + _BLANK
    limit = "" if row.ratio_to_bound is None else f"{row.ratio_to_bound:6.2f}"
    return (
        f"{row.size_bytes:12d}  {row.count:12d}  {row.type:>8}  {row.redop:>6}  {-1:6d}{cells}"
        f"  {fitted(row.netbw_gbs, 6)}  {limit}"
    )


def fitted(value: float, width: int) -> str:
    """The number right-aligned with as many decimals, two at most, as its column holds."""
    for decimals in (2, 1, 0):
        text = f"{value:{width}.{decimals}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


def _header(names: tuple[str, ...], figures: tuple[str, ...], more: tuple[str, ...]) -> str:
    widths = (10, 12, 8, 6, 6)
    left = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    group = "  ".join(f"{name:>{width}}" for name, width in zip(figures, (7, 6, 6, 6), strict=True))
    return f"# {left}  {group}  {group}  " + "  ".join(f"{name:>6}" for name in more)


def _times(factor: float) -> str:
    if factor >= 1:
        return f"{factor:.6g} times slower"
    return f"{1 / factor:.6g} times faster"


def _step(asked: Mapping[str, object]) -> str:
    """How nccl-tests says a sweep's step."""
    step = str(asked.get("size", "")).rpartition(":")[2]
    if step.startswith("+"):
        return f"{step[1:]}(bytes)"
    return f"{step[1:] if step.startswith('x') else 1}(factor)"


def _name(asked: Mapping[str, object]) -> str:
    chosen = asked.get("workload") or asked.get("collective")
    return str(chosen["name"]) if isinstance(chosen, Mapping) else "railweave"
