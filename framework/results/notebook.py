"""How a notebook shows a result: the verdict, a bar per iteration, the faults between them, a row per
size."""

from collections.abc import Sequence
from html import escape

from railweave.framework.results.figures import FabricFigures, FaultFigures, Fidelity, Row

WIDTH, HEIGHT = 480, 96
"""Of the bars, in pixels."""
SHOWN_BARS = 120
"""Iterations at most that get a bar, the first ones."""


def result_html(
    fabric: FabricFigures, fidelity: Fidelity, every_row: Sequence[Row], faults: Sequence[FaultFigures],
    n_reroutes: int,
) -> str:  # fmt: skip
    """A self-contained fragment of HTML; names are escaped."""
    summaries = [row for row in every_row if row.iteration is None]
    rows = "".join(
        "<tr>"
        + "".join(
            f"<td>{cell}</td>"
            for cell in (
                row.size_bytes,
                f"{row.declared_time_us:.4g}",
                f"{row.algbw_gbs:.4g}",
                "" if row.busbw_gbs is None else f"{row.busbw_gbs:.4g}",
                "N/A" if row.wrong is None else row.wrong,
            )
        )
        + "</tr>"
        for row in summaries
    )
    reasons = "".join(f"<li>{escape(reason)}</li>" for reason in fidelity.reasons)
    compared = any(row.wrong is not None for row in summaries)
    wrong = (
        f"{sum(row.wrong or 0 for row in summaries)} wrong elements" if compared else "no elements compared"
    )
    return (
        f"<p><b>{fidelity.verdict}</b>: {fabric.gpus} GPUs, {escape(fabric.kind)}, "
        f"{n_reroutes} reroutes, {wrong}</p>"
        f"{f'<ul>{reasons}</ul>' if reasons else ''}{_bars(every_row, faults)}"
        "<table><tr><th>size (B)</th><th>time (us, declared)</th><th>algbw (GB/s)</th><th>busbw (GB/s)</th>"
        f"<th>wrong</th></tr>{rows}</table>"
    )


def _bars(rows: Sequence[Row], faults: Sequence[FaultFigures]) -> str:
    """Iteration times as bars; a red line where a fault was injected."""
    iterations = [row for row in rows if row.iteration is not None][:SHOWN_BARS]
    if not iterations:
        return ""
    step, longest = WIDTH / len(iterations), max(row.time_us for row in iterations)
    shapes = []
    for i, row in enumerate(iterations):
        height = HEIGHT * row.time_us / longest if longest else 0.0
        place = f'x="{i * step:.1f}" y="{HEIGHT - height:.1f}" width="{0.8 * step:.1f}" height="{height:.1f}"'
        title = f"iteration {row.iteration}: {row.time_us * 1e-6:.4g} s emulated"
        shapes.append(f'<rect {place} fill="#4c78a8"><title>{title}</title></rect>')
    for fault in faults:
        if fault.t_s is not None:
            x = step * sum(row.t_s < fault.t_s for row in iterations)  # as many had begun
            line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="0" y2="{HEIGHT}" stroke="#c0392b" stroke-width="2">'
            shapes.append(f"{line}<title>{escape(fault.text)}</title></line>")
    return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}">{"".join(shapes)}</svg>'
