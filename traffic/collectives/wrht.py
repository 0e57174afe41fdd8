"""All-gather up and down a tree of groups on an optical ring."""

from __future__ import annotations

from railweave.traffic.collectives.optical import OpticalAllGather


class Wrht(OpticalAllGather):
    """Groups of 2w + 1 neighbours gather at their middle, the middles exchange, and all of it comes down again.

    The way down brings every item to every member one by one, so its steps exceed the formula of Table I, which
    counts it like the way up; framework/optical/wrht.py says what is the source's and what is ours.
    """

    summary = "groups of 2w+1 on a ring gather at their middle node, exchange, and spread"
    algorithm = "wrht"
