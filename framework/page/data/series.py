"""Samples of a run as figures over time, in at most INSTANTS steps."""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Int64
from railweave.framework.page.data import codes
from railweave.framework.page.data.items import Arrays, Shown
from railweave.framework.page.data.page_data import INSTANTS, Packed, Series
from railweave.framework.results.result import RunResult

Matrix = NDArray[np.floating]


def series(fabric: Fabric, chosen: Shown, samples: Arrays) -> Series:
    """The arrays of health.npz as a Series; `fabric` has emulated rates.

    Runs of older versions kept no `sent_bytes`: there is no load and no loss then.
    """
    t_s = samples["t_s"]
    if not len(t_s):
        return Series()
    edges = np.linspace(0.0, float(t_s[-1]), INSTANTS + 1)[1:]
    last = np.unique(np.minimum(np.searchsorted(t_s, edges, "right"), len(t_s)))
    starts = np.concatenate(([0], last[last > 0][:-1]))
    ends = np.concatenate((starts[1:], [len(t_s)])) - 1
    dt_s = np.diff(np.concatenate(([0.0], t_s[ends])))[:, None]
    by_element = _Elements(fabric, chosen.nodes)

    def over(name: str, reduce: np.ufunc) -> Matrix:
        return np.asarray(reduce.reduceat(samples[name].astype(np.float64), starts, axis=0))

    def both(values: Matrix, reduce: np.ufunc, code: Callable[[Matrix], codes.Bytes]) -> Packed:
        columns = [by_element.of(values, reduce), values[:, chosen.links]]
        return Packed.matrix(code(np.concatenate(columns, axis=1)))

    score = np.concatenate(
        [samples["element_score"][ends][:, chosen.nodes], samples["link_score"][ends][:, chosen.links]],
        axis=1,
    )
    load = loss = paused = None
    if samples.get("sent_bytes", t_s).shape == samples["link_score"].shape:
        sent_bps = 8 * over("sent_bytes", np.add) / np.maximum(dt_s, 1e-9)
        load = both(sent_bps / fabric.capacity_bps, np.maximum, codes.ratio)
        sent, lost = over("sent_packets", np.add), over("lost", np.add)
        loss = both(np.clip(lost / np.maximum(sent, 1), 0, 1), np.fmax, codes.share)
    if samples.get("paused_s", t_s).shape == samples["link_score"].shape:
        paused_s = over("paused_s", np.add)
        share = paused_s / np.maximum(dt_s, 1e-9)
        paused = None if np.isnan(share).all() else both(share, np.fmax, codes.ratio)
    return Series(
        t_s=tuple(np.round(t_s[ends], 6).tolist()),
        step_s=round(float(t_s[-1]) / len(ends), 6),
        score=Packed.matrix(codes.ratio(score)),
        queue=both(over("queue_bytes", np.maximum), np.add, codes.amount),
        load=load,
        loss=loss,
        paused=paused,
    )


def closed(fabric: Fabric, samples: Arrays | None, result: RunResult) -> Arrays | None:
    """The samples of a finished run, and one at its end, because nothing is sampled while nothing can change:
    scores as they were last, and what the links had sent since. As they are where the result does
    not list all links."""
    end_s = max((row.t_s + row.time_us * 1e-6 for row in result.rows if row.iteration is not None), default=0)
    if len(result.links) != fabric.n_links or not end_s:
        return samples
    sent = np.array([[link.bytes for link in result.links]], np.float64)
    ones, none = np.ones_like(sent), np.zeros_like(sent)
    if samples is None or not len(samples["t_s"]):
        return {
            "t_s": np.array([end_s]), "queue_bytes": none * np.nan, "link_score": ones, "sent_bytes": sent,
            "element_score": np.ones((1, fabric.n_nodes)), "sent_packets": none, "lost": none,
        }  # fmt: skip
    if "sent_bytes" not in samples or end_s <= samples["t_s"][-1]:
        return samples
    last = {
        "t_s": [end_s], "sent_bytes": np.maximum(sent - samples["sent_bytes"].sum(axis=0), 0),
        "sent_packets": none, "lost": none,
        "queue_bytes": np.full_like(sent, np.nan),
        **{name: samples[name][-1:] for name in ("link_score", "element_score")},
        **{name: np.full_like(sent, np.nan) for name in ("paused_s",) if name in samples},
    }  # fmt: skip
    return {name: np.concatenate((samples[name], values)) for name, values in last.items()}


class _Elements:
    """Puts figures of links together to those of the elements they count for."""

    def __init__(self, fabric: Fabric, nodes: Int64) -> None:
        links = np.flatnonzero(np.isin(fabric.link_element, nodes))
        self._order = links[np.argsort(fabric.link_element[links], kind="stable")]
        self._starts = np.searchsorted(fabric.link_element[self._order], nodes)

    def of(self, values: Matrix, reduce: np.ufunc) -> Matrix:
        """(n, elements) of (n, links)."""
        if not len(self._starts):
            return values[:, :0]
        return np.asarray(reduce.reduceat(values[:, self._order], self._starts, axis=1))
