"""Figures of links and of the switches that they belong to, by hand."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from railweave.framework import api
from railweave.framework.judging.link_figures import element_figures, job_bytes, link_figures
from railweave.framework.model.findings import LinkTotals
from tests.fakes.findings import findings, iteration


def test_a_switch_sends_what_its_links_send_and_is_as_busy_as_the_busiest() -> None:
    """In 2 s at 8 Mb/s two links of rail 1 sent 0.5 and 1 MB, in 10 packets each, of which one was lost."""
    fabric = api.topology("rail-only", domains=2, rails=2, domain_rate=72e6, rail_rate=8e6)
    names = [fabric.link_name(link) for link in range(fabric.n_links)]
    sent, packets, lost = np.zeros((3, fabric.n_links))
    for name, amount, missing in (("g0.1->r1", 0.5e6, 1), ("r1->g1.1", 1e6, 0)):
        link = names.index(name)
        sent[link], packets[link], lost[link] = amount, 10, missing
    totals = LinkTotals(sent, packets, np.zeros(fabric.n_links), lost)
    run = findings(fabric, run_s=2.0, links=totals)
    rail = next(one for one in element_figures(fabric, run) if one.name == "rail:1")
    assert (rail.links, rail.bytes, rail.utilisation) == (4, 1_500_000, pytest.approx(0.5))
    links = {link.name: link for link in link_figures(fabric, run)}
    first, second = links["g0.1->r1"], links["r1->g1.1"]
    assert (first.utilisation, first.loss) == (pytest.approx(0.25), pytest.approx(0.1))
    assert (second.bytes, second.loss, second.age_s) == (1_000_000, 0.0, None)


def test_programs_are_counted_on_links_and_other_jobs_by_their_routes() -> None:
    """Of four jobs: a program that is counted, one that is not, a collective, and one that has not begun."""
    fabric = api.topology("rail-only", domains=2, rails=2)
    n = fabric.n_links
    counted = np.vstack([np.full((1, n), 7.0), np.full((3, n), np.nan)])
    totals = LinkTotals(np.zeros(n), np.zeros(n), np.zeros(n), np.zeros(n), counted)
    own = iteration(fabric, 0, 0.0, job=2, own_bytes=np.full(n, 5.0))
    records = (own, own, iteration(fabric, 0, 0.0, job=1))
    run = findings(fabric, links=totals.since(replace(totals, job_bytes=counted - 1)), iterations=records)
    assert [None if one is None else set(one) for one in (job_bytes(run, job) for job in range(4))] == [
        {1.0}, None, {10.0}, None,
    ]  # fmt: skip
