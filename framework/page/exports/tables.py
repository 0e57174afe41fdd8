"""Iterations, links over time and key figures of a run as tables: CSV, or Parquet (extra `data`)."""

import csv
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, fields
from io import BytesIO, StringIO
from typing import Any

import numpy as np

from railweave.framework.errors import InputError, NotInstalledError
from railweave.framework.page.exports.exported_run import ExportedIteration, ExportedRun

Columns = Mapping[str, Sequence[Any]]
_SAMPLED = ("queue_bytes", "sent_bytes", "sent_packets", "lost", "paused_s", "link_score")


def iterations(run: ExportedRun) -> Columns:
    """A row for each iteration."""
    names = [field.name for field in fields(ExportedIteration) if field.name != "figures"]
    columns = {name: [getattr(i, name) for i in run.iterations] for name in names}
    figure_names = dict.fromkeys(name for i in run.iterations for name in i.figures)
    return columns | {name: [i.figures.get(name) for i in run.iterations] for name in figure_names}


def links(run: ExportedRun) -> Columns:
    """A row for each sample of each link: `t_s` and the figures of health.npz; `queue_bytes` waiting then,
    `sent_bytes`, `sent_packets`, `lost` and `paused_s` since the sample before."""
    samples, fabric = run.samples, run.fabric
    if samples is None or not len(samples["t_s"]):
        raise InputError(
            f"{run.title} has no samples of links: it failed, or measured nothing. Take --table iterations."
        )
    n, names = len(samples["t_s"]), [fabric.link_name(i) for i in range(fabric.n_links)]
    kinds = [fabric.kinds[kind] for kind in fabric.link_kind.tolist()]
    columns: dict[str, Sequence[Any]] = {
        "t_s": np.repeat(samples["t_s"], fabric.n_links).tolist(), "link": names * n, "kind": kinds * n,
    }  # fmt: skip
    for name in _SAMPLED:
        if samples.get(name, samples["t_s"]).shape == (n, fabric.n_links):
            values = samples[name].astype(float).ravel()
            columns[name] = [None if np.isnan(value) else value for value in values.tolist()]
    return columns


def key_figures(run: ExportedRun) -> Columns:
    """A row for each key figure of the result, by its name in docs/results.md."""
    if run.result is None:
        raise InputError(f"{run.title} has no result, and so no key figures. Take --table iterations.")
    figures: dict[str, Any] = {}
    _flat("", asdict(run.result.key_figures), figures)
    if run.result.rows:
        spread = run.result.summary
        _flat("time_figures", asdict(spread.time_figures) if spread.time_figures else None, figures)
        _flat("busbw_figures", asdict(spread.busbw_figures) if spread.busbw_figures else None, figures)
    return {"figure": list(figures), "value": list(figures.values())}


def _flat(prefix: str, value: Any, into: dict[str, Any]) -> None:
    if isinstance(value, Mapping):
        for name, part in value.items():
            _flat(f"{prefix}.{name}" if prefix else name, part, into)
    else:
        into[prefix] = value


TABLES: Mapping[str, Callable[[ExportedRun], Columns]] = {
    "iterations": iterations,
    "links": links,
    "kpi": key_figures,
}


def as_csv(columns: Columns) -> bytes:
    """With a header; what is not known is empty. RFC 4180, UTF-8."""
    text = StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    return text.getvalue().encode()


def as_parquet(columns: Columns) -> bytes:
    """Raises NotInstalledError without the extra `data`."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise NotInstalledError(
            "Parquet needs pyarrow, which is not installed here. Install the extra: "
            "pip install 'railweave[data]', or take --format csv."
        ) from None
    buffer = BytesIO()
    pyarrow.parquet.write_table(pyarrow.table(dict(columns)), buffer)
    return buffer.getvalue()
