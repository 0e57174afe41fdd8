"""The figures of links and switches over a whole run."""

from collections.abc import Mapping
from math import isfinite

import numpy as np
from numpy.typing import NDArray

from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Bool, Float, Int64
from railweave.framework.model.findings import Findings, LinkTrace
from railweave.framework.results.figures import ElementFigures, LinkFigures

LISTED_GPUS, LISTED_LINKS = 4096, 1000
"""Of fabrics with more GPUs a result lists the busiest links, this many; arrays hold them all."""


def link_figures(fabric: Fabric, findings: Findings, jobs: int = 0) -> tuple[LinkFigures, ...]:
    """Of every link, or of the busiest; by job where there are several `jobs`. `fabric` has emulated
    rates."""
    links, used = findings.links, utilisation(fabric, findings)
    loss = links.lost / np.maximum(links.sent_packets, 1)
    by_job = [job_bytes(findings, job) for job in range(jobs)]
    age_s = findings.run_s - findings.measured_s
    at = _listed(fabric, used)
    unknown = np.full(len(used), np.nan)
    pauses, paused = unknown, unknown
    if len(links.pauses):
        pauses, paused = links.pauses, links.paused_s / (findings.run_s or 1.0)
    columns = (
        fabric.link_kind, links.sent_bytes.astype(np.int64), links.drops.astype(np.int64), used,
        findings.link_score, age_s, loss, links.marked if len(links.marked) else unknown,
        pauses, paused, links.trimmed if len(links.trimmed) else unknown,
    )  # fmt: skip
    rows = zip(at.tolist(), *(column[at].tolist() for column in columns), strict=True)
    return tuple(
        LinkFigures(
            fabric.link_name(i),
            fabric.kinds[kind],
            sent,
            drops,
            used_share,
            score,
            age if isfinite(age) else None,
            lost,
            tuple(None if bytes_ is None else int(bytes_[i]) for bytes_ in by_job) if by_job else (),
            int(marked) if isfinite(marked) else None,
            int(stops) if isfinite(stops) else None,
            paused_share if isfinite(paused_share) else None,
            int(trimmed) if isfinite(trimmed) else None,
        )
        for i, kind, sent, drops, used_share, score, age, lost, marked, stops, paused_share, trimmed in rows
    )


def utilisation(fabric: Fabric, findings: Findings) -> Float:
    """(n_links,): bits sent over what the healthy rates allow."""
    run_s = findings.run_s
    return findings.links.sent_bytes * (8 / run_s if run_s > 0 else 0.0) / fabric.capacity_bps


def is_large(fabric: Fabric) -> bool:
    """Whether a result lists only some of the links."""
    return fabric.n_gpus > LISTED_GPUS


def _listed(fabric: Fabric, used: Float) -> Int64:
    if not is_large(fabric):
        return np.arange(fabric.n_links)
    return np.sort(np.argsort(-used, kind="stable")[:LISTED_LINKS])


def element_figures(fabric: Fabric, findings: Findings) -> tuple[ElementFigures, ...]:
    """Those of every switch whose links have a score together. `fabric` has emulated rates."""
    element, used = fabric.link_element, utilisation(fabric, findings)
    has_element: Bool = element >= 0
    count = np.bincount(element[has_element], minlength=fabric.n_nodes)
    sent = np.bincount(element[has_element], findings.links.sent_bytes[has_element], fabric.n_nodes)
    busiest = np.zeros(fabric.n_nodes)
    np.maximum.at(busiest, element[has_element], used[has_element])
    scores = findings.health[-1].elements if findings.health else {}
    nodes = np.flatnonzero(count).tolist()
    names = [f"{fabric.node_kind(n)}:{'.'.join(map(str, fabric.coordinates(n)))}" for n in nodes]
    return tuple(
        ElementFigures(name, int(count[n]), int(sent[n]), float(busiest[n]), scores.get(name, 1.0))
        for name, n in zip(names, nodes, strict=True)
    )


def link_arrays(fabric: Fabric, findings: Findings) -> Mapping[str, NDArray[np.generic]]:
    """(n_links,) each: the figures of all links, and the nodes that they join by their numbers."""
    links = findings.links
    return {
        "src": fabric.link_src, "dst": fabric.link_dst, "kind": fabric.link_kind,
        "bytes": links.sent_bytes, "drops": links.drops, "lost": links.lost,
        "utilisation": utilisation(fabric, findings), "h_score": findings.link_score,
        "measured_s": findings.measured_s,
    }  # fmt: skip


def trace_arrays(fabric: Fabric, findings: Findings, trace: LinkTrace) -> Mapping[str, NDArray[np.generic]]:
    """Mean loads in each interval, (n, links), of the links that a result lists; 0 in the one of no length
    of a run that sent nothing. `fabric` has emulated rates."""
    links = _listed(fabric, utilisation(fabric, findings))
    took_s = np.diff(trace.t_s, prepend=0.0)[:, None]
    load_bps = 8 * trace.sent_bytes[:, links] / np.where(took_s > 0, took_s, 1.0)
    return {
        "t_s": trace.t_s, "load_bps": load_bps.astype(np.float32),
        "name": np.array([fabric.link_name(i) for i in links.tolist()]), "link": links,
        "rate_bps": fabric.capacity_bps[links],
    }  # fmt: skip


def job_bytes(findings: Findings, job: int) -> Float | None:
    """(n_links,): bytes of a job over the whole run: of a program all that links carried for it, else its
    data by its routes; None where that is not known (some programs)."""
    counted = findings.links.job_bytes[job : job + 1]
    if counted.size and not np.isnan(counted).any():
        return np.asarray(counted[0])
    own_bytes = [record.own_bytes for record in findings.iterations if record.job == job]
    return np.sum(own_bytes, axis=0) if own_bytes and all(len(per_link) for per_link in own_bytes) else None
