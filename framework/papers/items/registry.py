"""All items of all sources, and the one that a name means."""

from collections.abc import Mapping
from types import MappingProxyType

from railweave.framework.errors import InputError, did_you_mean
from railweave.framework.papers.items.hscore.items import PAPER as HSCORE
from railweave.framework.papers.items.item import Item, Paper
from railweave.framework.papers.items.optree.items import PAPER as OPTREE
from railweave.framework.papers.items.rail_only.items import PAPER as RAIL_ONLY
from railweave.framework.papers.items.tpuv4.items import PAPER as TPUV4

PAPERS: Mapping[str, Paper] = MappingProxyType(
    {paper.key: paper for paper in (HSCORE, OPTREE, TPUV4, RAIL_ONLY)}
)


def paper_named(key: str) -> Paper:
    """The source of this word. Raises InputError with the nearest one."""
    if key not in PAPERS:
        words = (*PAPERS, "all")
        raise InputError(
            f"there is no paper {key!r}; there are {', '.join(words)}.{did_you_mean(key, words)}"
        )
    return PAPERS[key]


def item_named(paper: Paper, name: str) -> Item:
    """The item of this id. Raises InputError with the nearest one, or the paper that has it."""
    for item in paper.items:
        if item.id == name.lower():
            return item
    ids = [item.id for item in paper.items]
    elsewhere = [other.key for other in PAPERS.values() if name in [item.id for item in other.items]]
    hint = f" It is one of {elsewhere[0]}." if elsewhere else did_you_mean(name.lower(), ids)
    raise InputError(f"{paper.key} has no item {name!r}; it has {ids[0]} to {ids[-1]}.{hint}")
