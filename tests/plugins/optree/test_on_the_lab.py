"""All-gathers of an optical ring in real packets: the time their item-times take,
and every item on its wire."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from railweave.framework.model import PacketFormat
from railweave.framework.papers.optical.algorithms import plan_of
from tests.framework.papers.optical.plan_checks import link_items

NODES, WAVELENGTHS, SHARD = 16, 2, 256 << 10


@pytest.mark.lab
def test_an_all_gather_takes_its_item_times_and_fills_its_links(tmp_path: Path) -> None:
    """16 GPUs, 2 wavelengths, 4 MiB: item-times x a shard's time at a link (OpTree, equation 3
    without reconfiguration), twice that at most. A link carries the items of the plan and acknowledgements,
    some percent of the others'."""
    command = [
        str(Path(sys.executable).with_name("railweave")),
        "run",
        "--topology",
        "ring",
        "--nodes",
        str(NODES),
        "--set",
        f"topology.wavelengths={WAVELENGTHS}",
        "--router",
        "optree",
        "--set",
        "router.algorithm=optree",
        "--collective",
        "optree",
        "--size",
        str(NODES * SHARD),
        "--rate-scale",
        "1.2e-4",
        "--iterations",
        "2",
        "--fault",
        "none",
        "--no-feedback",
        "--json",
        "-",
        "--out",
        str(tmp_path / "run"),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    # a busy machine only makes them longer
    row = max(result["rows"][:2], key=lambda row: row["ratio_to_model"])
    plan = plan_of("optree", NODES, WAVELENGTHS)
    item_bytes = PacketFormat(4096).wire_bytes(SHARD)
    rate_bps = 40e9 * 1.2e-4
    assert row["model_us"] == pytest.approx(plan.item_times * item_bytes * 8 / rate_bps * 1e6, rel=1e-6)
    assert result["rows"][-1]["wrong"] == 0 and 0.5 <= row["ratio_to_model"] < 1.1

    sent = np.array([link["bytes"] for link in result["links"]]) / item_bytes / 2
    items = link_items(plan)
    for wavelength in range(WAVELENGTHS):
        for node in range(NODES):
            up, down = (2 * (wavelength * NODES + at % NODES) for at in (node, node - 1))
            for link, expected in ((up, items[0, node, wavelength]), (down + 1, items[1, node, wavelength])):
                assert expected - 1e-9 <= sent[link] <= expected + 0.6, result["links"][link]["name"]
