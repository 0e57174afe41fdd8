"""What the lines of a picture mean."""

from railweave.framework import units
from railweave.framework.errors import FabricError
from railweave.framework.model import Fabric
from railweave.framework.model.arrays import Float

Legend = list[tuple[str, str, str]]
"""(colour, dash pattern, words) of every kind of line; a colour of "" makes a remark."""


def rate_words(rates_bps: Float) -> str:
    """`400Gb/s`, or from lowest to highest where rates differ."""
    low, high = units.rate(float(rates_bps.min())), units.rate(float(rates_bps.max()))
    return low if low == high else f"{low} to {high}"


def shown(length: int, most: int) -> list[int | None]:
    """The positions to draw of `length`: all, or the first ones, a gap (None) and the last."""
    if length <= most:
        return list(range(length))
    return [*range(most - 2), None, length - 1]


def refuse_above(most: int, fabric: Fabric) -> None:
    """FabricError for a fabric of more than `most` GPUs."""
    if fabric.n_gpus > most:
        raise FabricError(
            f"{fabric.kind} of {fabric.n_gpus} GPUs: a picture holds {most} at most. Use `--format graphml` "
            "and a graph viewer."
        )
