"""Blocks of draws: one test item checks several, and reports all of them that break the law."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from railweave.framework.errors import InputError
from tests.laws.experiments import Document, Draw
from tests.laws.runs import Outcome, plan_of, reproduction, run

IN_ALL = 300
"""Draws of all laws together in CI; its module gives each law a share of them."""
MOST_ATTEMPTS = 200


@dataclass(frozen=True)
class Case:
    """An experiment and what is compared: a run for each of `variants`, keys that win over the document's.
    `notes`: what else the law needs to know of it."""

    document: Document
    variants: Sequence[Mapping[str, Any]] = ({},)
    notes: Mapping[str, Any] = field(default_factory=dict)

    def outcomes(self) -> list[Outcome]:
        return [run({**self.document, **keys}) for keys in self.variants]


@dataclass(frozen=True)
class Drawing:
    """What a draw is made from. `router`: the only one to draw, None for any."""

    draw: Draw
    router: str | None = None


Drawn = Callable[[Drawing], Case | None]
"""A case, or None where what was drawn is none for this law."""
Judge = Callable[[Case, Sequence[Outcome]], str | None]
"""What the runs of a case show against the law, in words; None if they keep it."""


@dataclass(frozen=True)
class Block:
    """Some draws of one law."""

    law: str
    seed: int
    numbers: range
    router: str | None = None

    def check(self, drawn: Drawn, judge: Judge) -> None:
        """Fails with every draw of the block that breaks the law, and how to reproduce it."""
        broken = []
        for number in self.numbers:
            if (case := self.case(number, drawn)) is None:
                continue
            if complaint := judge(case, case.outcomes()):
                broken.append(
                    f"law {self.law}, draw {number} of seed {self.seed}: {complaint}\n"
                    f"# pytest tests/laws -k {self.law} --laws-seed {self.seed} --laws-draw {number}\n"
                    + reproduction(case.document, case.variants)
                )
        if broken:
            count = f"{len(broken)} of {len(self.numbers)} draws break the law {self.law}"
            pytest.fail("\n\n".join((count, *broken)), pytrace=False)

    def case(self, number: int, drawn: Drawn) -> Case | None:
        """The case with this number: the first that can be run. None where the router to draw serves none."""
        for attempt in range(MOST_ATTEMPTS):
            draw = np.random.default_rng((crc32(self.law.encode()), self.seed, number, attempt))
            case = drawn(Drawing(draw, self.router))
            if case is not None and all(_can_be({**case.document, **keys}) for keys in case.variants):
                return case
        if self.router is None:
            raise AssertionError(
                f"law {self.law}: no experiment in {MOST_ATTEMPTS} attempts of draw {number}"
            )
        return None


def _can_be(document: Document) -> bool:
    """Whether such an experiment is no mistake, as an even number of nodes where odd ones are refused."""
    try:
        plan_of(document)
    except InputError:
        return False
    return True
