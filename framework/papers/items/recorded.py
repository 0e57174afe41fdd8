"""What items came to on a lab, recorded: `lab.yaml`, which `.ci/lab_results.py` writes."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import yaml

from railweave.framework.papers.items.item import Value

FILE = Path(__file__).with_name("lab.yaml")


@dataclass(frozen=True, slots=True)
class Recorded:
    """The figures of an item by name, on a lab of this day (ISO 8601), and the command that ran it; of one
    that the lab refused, why."""

    date: str
    command: str
    ours: Mapping[str, Value] = field(default_factory=dict)
    refused: str = ""


@cache
def recorded() -> Mapping[str, Recorded]:
    """All that is recorded, by the item's id."""
    return {name: Recorded(**entry) for name, entry in yaml.safe_load(FILE.read_text()).items()}
