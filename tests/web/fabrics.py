"""Runs of the fluid engine on every kind of fabric, with a fault on each."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import railweave as rw

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
FABRICS: dict[str, dict[str, Any]] = {
    "rail-only": {"faults": ["at=iter:4 degrade rail:1 to=20%"]},
    "rail-optimised": {"topology": "rail-optimised", "faults": ["at=iter:4 degrade rail:1 to=20%"]},
    "ring": {"topology": "ring", "faults": ["at=iter:4 degrade link:g1->g2 to=20%"]},
    "torus": {"topology": "torus", "faults": ["at=iter:4 degrade link:g0.0.0->g1.0.0 to=20%"]},
    "fat-tree": {
        "topology": "fat-tree",
        "router": "ecmp",
        "faults": ["at=iter:4 degrade core:0.0 to=20%"],
    },
    "file": {
        "topology": f"file:{EXAMPLES / 'dual-plane.yaml'}",
        "faults": ["at=iter:4 degrade spine:0.0 to=20%"],
    },
    "jobs": {"jobs": ["ranks=domain:0-1", "ranks=domain:2-3 collective=all-to-all"]},
    "1024": {"domains": 32, "rails": 32, "faults": ["at=iter:4 degrade rail:1 to=20%"]},
}


def run(name: str, to: Path) -> Path:
    """The directory of eight iterations on a fabric of FABRICS; it has its report."""
    rw.run(engine="fluid", iterations=8, out=to, **FABRICS[name])
    return to
