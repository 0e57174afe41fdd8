"""Trimmed packets that are sent again for ever."""

from __future__ import annotations

from typing import Any

import pytest

import railweave as rw
from railweave.framework.errors import TransportError

OVER_GPUS: dict[str, Any] = {
    "topology": {
        "name": "rail-only",
        "domains": 3,
        "rails": 6,
        "domain_latency": "306ns",
        "rail_latency": "600ns",
    },
    "router": "shortest",
    "collective": "direct-all-to-all",
    "size": "4608K",
    "iterations": 2,
    "faults": ["at=iter:1 degrade rail:5 to=14% way=out", "at=iter:1 degrade rail:2 to=80%"],
}
"""GPUs pass packets on, between their own."""
TRIMS = {"name": "packet", "buffer": 129270, "trimming": True}


def test_where_nothing_gets_through_but_headers_the_run_fails_and_says_what_helps() -> None:
    """First in, first out, the packets of a NIC's own pairs, windows of 93 packets for each of 17, are always
    more than the 31 of its queue's room, so it trims whatever it is to pass on: every packet over a second
    GPU. All are heard of, so that no pair falls silent, and none arrives."""
    with pytest.raises(
        TransportError, match=r"livelock: for 4\.5\d* s .*most at g\d\.\d->.*, and sent again"
    ):
        rw.run({**OVER_GPUS, "engine": {**TRIMS, "nic": "fifo"}})


@pytest.mark.parametrize("changed", [{"engine": {**TRIMS, "nic": "in-turn"}}, {"control": "dcqcn"}])
def test_what_it_names_does_help(changed: dict[str, Any]) -> None:
    result = rw.run({**OVER_GPUS, "engine": {**TRIMS, "nic": "fifo"}, **changed})
    assert len([row for row in result.rows if row.iteration is not None]) == 2
