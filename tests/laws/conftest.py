"""Spreads the draws of every law over test items."""

from __future__ import annotations

import pytest

from tests.laws.blocks import IN_ALL, Block

BLOCK, LARGEST_BLOCK = 10, 50
"""Draws of a test item: so many, and of a long campaign more, so that items stay few."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "block" not in metafunc.fixturenames:
        return
    option = metafunc.config.getoption
    law = metafunc.function.__name__.removeprefix("test_")
    share, number = int(metafunc.module.SHARES[law]), option("--laws-draw")
    total = option("--laws")
    wanted = max(1, round(share * total / IN_ALL))
    size = min(LARGEST_BLOCK, max(BLOCK, wanted // 40))
    ranges = [range(first, min(first + size, wanted)) for first in range(0, wanted, size)]
    if number is not None:
        ranges = [range(number, number + 1)]
    blocks = [Block(law, option("--laws-seed"), numbers, option("--laws-router")) for numbers in ranges]
    names = [f"{numbers.start}-{numbers.stop - 1}" for numbers in ranges]
    marks = [pytest.mark.timeout(0)] if total > IN_ALL else []  # two draws of a campaign may take minutes
    metafunc.parametrize("block", [pytest.param(block, marks=marks) for block in blocks], ids=names)
