"""What a fabric is made of and costs, by a price file of the user: ports, cables with their optics, power."""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from railweave.framework.errors import FabricError
from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.settings import LayeredSettings
from railweave.framework.model import Fabric

PARTS = {"ports": ("price", "power_w"), "cables": ("price", "power_w", "optics")}
"""Sections of a price file, and what each part in one has; an absent value counts as 0, but the price."""
MOST = 1e12
"""Largest price, power or count of a file: a larger one is a mistake, and sums of it would lose digits."""


@dataclass(frozen=True, slots=True)
class Price:
    """Of one part: `price` in the file's currency, `power_w` in watts, `optics`: transceivers."""

    price: float
    power_w: float = 0.0
    optics: int = 0


@dataclass(frozen=True, slots=True)
class PriceList:
    """`parts`: by section and kind, such as ("ports", "rail") and ("cables", "r")."""

    source: str
    currency: str
    parts: Mapping[tuple[str, str], Price]


@dataclass(frozen=True, slots=True)
class PartCost:
    """`count` parts of a section and a kind, and what all of them together cost, draw and have."""

    section: str
    kind: str
    count: int
    price: float
    power_w: float
    optics: int


@dataclass(frozen=True, slots=True)
class FabricCost:
    """`ports`: ends of cables at switches and GPUs; `optics`: transceivers."""

    currency: str
    gpus: int
    parts: tuple[PartCost, ...]
    ports: int
    cables: int
    optics: int
    power_w: float
    price: float

    @property
    def price_per_gpu(self) -> float:
        return self.price / self.gpus


def read_prices(path: Path) -> PriceList:
    """A price file (docs/fabrics.md, Prices).

    Raises ExperimentError that lists everything wrong with its place.
    """
    file = yaml_reader.read(path)
    currency = file.value.get("currency", "")
    if not isinstance(currency, str) or not currency:
        file.report(("currency",), "expects a word, such as USD.")
    for name in file.value.keys() - {"currency", *PARTS}:
        file.report((name,), f"there is no such section; there are currency, {', '.join(PARTS)}.")
    parts = {
        (section, kind): price
        for section, figures in PARTS.items()
        for kind, price in _section(file, section, figures).items()
    }
    file.check()
    return PriceList(str(path), str(currency), parts)


def _section(file: LayeredSettings, section: str, allowed: tuple[str, ...]) -> dict[str, Price]:
    entries = file.value.get(section, {})
    if not isinstance(entries, dict):
        file.report((section,), f"expects kinds with their prices (got {entries!r}).")
        return {}
    prices = {}
    for kind, figures in entries.items():
        if not isinstance(figures, dict) or "price" not in figures:
            file.report((section, kind), f"expects {{price: NUMBER}}, and of {', '.join(allowed[1:])} any.")
            continue
        for name, value in figures.items():
            where = (section, kind, name)
            if name not in allowed:
                file.report(where, f"there is no such figure; there are {', '.join(allowed)}.")
            elif not _is_amount(value, whole=name == "optics"):
                file.report(where, f"expects a {'whole ' * (name == 'optics')}number, 0 or more.")
        if not file.problems:
            prices[kind] = Price(**figures)
    return prices


def _is_amount(value: object, *, whole: bool) -> bool:
    number = type(value) is int or (type(value) is float and not whole and math.isfinite(value))
    return number and 0 <= float(str(value)) <= MOST


def cost(fabric: Fabric, prices: PriceList) -> FabricCost:
    """What the fabric costs. A cable is a pair of links; it has a port at each end, that of its node's kind,
    and the kind of its first link.

    Raises FabricError naming every part without a price.

    >>> fabric = rw.topology("rail-only", domains=2, rails=2)
    >>> kinds = {("cables", "d"), ("cables", "r"), ("ports", "gpu"), ("ports", "domain"), ("ports", "rail")}
    >>> cost(fabric, PriceList("", "USD", dict.fromkeys(kinds, Price(1)))).price
    24.0
    """
    first = np.arange(0, fabric.n_links, 2)
    ends = np.concatenate((fabric.link_src[first], fabric.link_dst[first])).tolist()
    kinds = Counter(fabric.node_kind(node) for node in ends)
    cables = Counter(fabric.kinds[kind] for kind in fabric.link_kind[first].tolist())
    counts = {("ports", kind): n for kind, n in kinds.items()}
    counts |= {("cables", kind): n for kind, n in cables.items()}
    if missing := [f"{section}.{kind}" for section, kind in counts if (section, kind) not in prices.parts]:
        raise FabricError(
            f"{prices.source} has no price of {', '.join(missing)}, which this {fabric.kind} has. Add "
            f"`{missing[0].replace('.', ': {')}: {{price: NUMBER}}}}`, 0 where it is part of another."
        )
    parts = tuple(
        PartCost(section, kind, n, n * price.price, n * price.power_w, n * price.optics)
        for (section, kind), n in counts.items()
        for price in (prices.parts[section, kind],)
    )
    return FabricCost(
        prices.currency,
        fabric.n_gpus,
        parts,
        len(ends),
        len(first),
        sum(part.optics for part in parts),
        math.fsum(part.power_w for part in parts),
        math.fsum(part.price for part in parts),
    )
