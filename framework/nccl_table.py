"""The table that nccl-tests prints, for a railweave result.

Formats: nccl-tests src/util.cu (column widths, decimals that shrink to fit, footer). What a run did not do (the
other placement) is left blank, as nccl-tests does when it replays one placement alone.
"""

from __future__ import annotations

from railweave.framework.results import RunResult

_HEAD = ("size", "count", "type", "redop", "root")
_UNITS = ("(B)", "(elements)", "", "", "")
_BLANK = " " * 33


def nccl_table(result: RunResult) -> str:
    """Header, one row (the mean of all iterations) and footer, ending in a newline."""
    row, asked = result.summary, result.experiment
    errors = sum(r.wrong > 0 for r in result.rows if r.iteration is not None)
    figures = "  ".join(
        (
            "",
            fitted(row.declared_time_us, 7),
            fitted(row.algbw_gbs, 6),
            fitted(row.busbw_gbs, 6),
            f"{row.wrong:6g}",
        )
    )
    cells = _BLANK + figures if result.in_place else figures
    settings = (
        f"# nThread 1 nGpus {result.fabric.gpus} minBytes {row.size_bytes} maxBytes {row.size_bytes} "
        f"step: 1(factor) warmup iters: 0 iters: {len(result.rows) - 1} agg iters: 1 validation: 1 graph: 0"
    )
    clock = (
        "# time, algbw and busbw are declared: of the machine whose rates the experiment gives. The emulated "
        f"fabric ran {_times(1 / result.fabric.rate_scale)} (rate scale {result.fabric.rate_scale:.6g})."
    )
    lines = [
        settings,
        "#",
        clock,
        "#",
        f"# {'':>10}  {'':>12}  {'':>8}  {'':>6}  {'':>6}           out-of-place                       in-place          ",
        _header(_HEAD, ("time", "algbw", "busbw", "#wrong")),
        _header(_UNITS, ("(us)", "(GB/s)", "(GB/s)", "")),
        f"{row.size_bytes:12d}  {row.count:12d}  {row.type:>8}  {row.redop:>6}  {-1:6d}{cells}",
        f"# {'Out of bounds values':<20} : {errors} {'FAILED' if errors else 'OK'}",
        f"# {'Avg bus bandwidth':<20} : {row.busbw_gbs:g} ",
        "#",
        f"# Collective test concluded: {_name(asked)}",
    ]
    return "\n".join(line.rstrip() if not line.startswith("# Avg") else line for line in lines) + "\n"


def fitted(value: float, width: int) -> str:
    """The number right-aligned with as many decimals, two at most, as its column holds."""
    for decimals in (2, 1, 0):
        text = f"{value:{width}.{decimals}f}"
        if len(text) <= width:
            return text
    return f"{value:{width}.{1 if width >= 7 else 0}e}"


def _header(names: tuple[str, ...], figures: tuple[str, ...]) -> str:
    widths = (10, 12, 8, 6, 6)
    left = "  ".join(f"{name:>{width}}" for name, width in zip(names, widths, strict=True))
    group = "  ".join(f"{name:>{width}}" for name, width in zip(figures, (7, 6, 6, 6), strict=True))
    return f"# {left}  {group}  {group}"


def _times(factor: float) -> str:
    if factor >= 1:
        return f"{factor:.6g} times slower"
    return f"{1 / factor:.6g} times faster"


def _name(asked: object) -> str:
    collective = asked.get("collective") if isinstance(asked, dict) else None
    return str(collective["name"]) if isinstance(collective, dict) else "railweave"
