"""Which GPUs take part: `all`, `8` (the first ones), `domain:0-1`, `rail:0`, `gpu:0.0,1.2`, each with `/K`
for every K-th of them and `/K+I` to begin with the I-th; several selectors are joined."""

import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from railweave.framework.errors import ExperimentError, did_you_mean
from railweave.framework.model import Fabric, Schedule
from railweave.framework.model.arrays import Bool, Int32, Int64

ALL = "all"
EXAMPLES = "all, 8, domain:0-1, rail:0, gpu:0.0,1.2, all/2 or all/2+1"
_SELECTOR = re.compile(r"(?P<what>[^/\s]+?)(/(?P<step>\d{1,9})(\+(?P<first>\d{1,9}))?)?", re.ASCII)
_PART = re.compile(r"(?P<low>\d{1,9})(-(?P<high>\d{1,9}))?|\*", re.ASCII)


def selectors_of(value: object) -> str:
    """Selectors as one text; a number or a list of them reads as well. Raises ExperimentError."""
    parts = value if isinstance(value, list | tuple) else [value]
    if not parts or not all(isinstance(part, str | int) and not isinstance(part, bool) for part in parts):
        raise ExperimentError(f"expects {EXAMPLES} (got {value!r}).")
    texts = " ".join(map(str, parts)).split()
    for text in texts:
        if not (match := _SELECTOR.fullmatch(text)) or (match["step"] and int(match["step"]) == 0):
            raise ExperimentError(f"{text!r} selects no ranks. Write {EXAMPLES}.")
        if match["what"].removeprefix("-").isdecimal() and int(match["what"]) < 1:
            raise ExperimentError(f"{text!r} is too small; it takes 1 rank or more, or {ALL}.")
    if not texts:
        raise ExperimentError(f"selects no ranks. Write {EXAMPLES}.")
    return " ".join(texts)


def gpus_of(fabric: Fabric, selectors: str) -> tuple[int, ...]:
    """The GPUs of these selectors, in their order, which is that of the ranks; each GPU once.

    Raises ExperimentError for a selector of something that the fabric does not have.
    """
    chosen: dict[int, None] = {}
    for text in selectors.split():
        match = _SELECTOR.fullmatch(text)
        assert match is not None
        gpus = _selected(fabric, match["what"])
        first, step = int(match["first"] or 0), int(match["step"] or 1)
        if first >= len(gpus):
            raise ExperimentError(f"{text!r} begins behind the last of its {len(gpus)} GPUs. Lower it.")
        chosen |= dict.fromkeys(gpus[first::step])
    return tuple(chosen)


def between_gpus(schedule: Schedule, gpus: Sequence[int], n_gpus: int) -> Schedule:
    """The same transfers between GPUs in place of ranks, as routes and links know them."""
    if tuple(gpus) == tuple(range(n_gpus)):
        return schedule
    place = np.append(np.asarray(gpus, np.int32), np.int32(-1))  # a join's rank, -1, stays as it is
    symmetries = np.tile(np.arange(n_gpus, dtype=np.int32), (len(schedule.symmetries), 1))
    symmetries[:, place[:-1]] = place[schedule.symmetries]
    return replace(
        schedule,
        src=place[schedule.src],
        dst=place[schedule.dst],
        n_ranks=n_gpus,
        symmetries=symmetries,
    )


def _selected(fabric: Fabric, selection: str) -> list[int]:
    kind, colon, items = selection.partition(":")
    if selection == ALL:
        return list(range(fabric.n_gpus))
    if selection.isdecimal():
        if int(selection) > fabric.n_gpus:
            raise ExperimentError(
                f"{selection} ranks do not fit on {fabric.n_gpus} GPUs. Lower it, or take {ALL}."
            )
        return list(range(int(selection)))
    kinds = {"gpu", *fabric.axis_names, *(group.kind for group in fabric.groups)}
    if not colon or kind not in kinds:
        prefixes = ", ".join(sorted(f"{kind}:" for kind in kinds))
        raise ExperimentError(
            f"{selection!r} selects no ranks. Write {ALL}, a number, or {prefixes} with numbers behind it, "
            f"such as gpu:{'.'.join('0' for _ in fabric.groups[0].shape)}.{did_you_mean(kind, kinds)}"
        )
    ranks: list[int] = []
    for item in items.split(","):
        ranks += _matching(fabric, kind, item).tolist()
    return list(dict.fromkeys(ranks))


def _matching(fabric: Fabric, kind: str, item: str) -> Int64:
    """The GPUs that one item behind the colon means: by a coordinate, or by a cable to a switch."""
    gpus = fabric.groups[0]
    if kind == gpus.kind:
        return np.flatnonzero(_within(kind, item, gpus.all_coordinates, gpus.shape))
    if kind in fabric.axis_names:
        axis = fabric.axis_names.index(kind)
        along_axis = fabric.gpu_coordinates[:, axis : axis + 1]
        return np.flatnonzero(_within(kind, item, along_axis, gpus.shape[axis : axis + 1]))
    group = fabric.group(kind)
    assert group is not None
    nodes = group.first + np.flatnonzero(_within(kind, item, group.all_coordinates, group.shape))
    ends = fabric.link_src[np.isin(fabric.link_dst, nodes)]
    if not (ends < fabric.n_gpus).any():
        raise ExperimentError(f"no GPU has a cable to {kind}:{item}. Choose switches with cables to GPUs.")
    return np.unique(ends[ends < fabric.n_gpus]).astype(np.int64)


def _within(kind: str, item: str, places: Int32, shape: Sequence[int]) -> Bool:
    """(n,): which of these coordinates an item such as `0-1`, `*.3` or `1.2` means."""
    parts = [_PART.fullmatch(part) for part in item.split(".")]
    ranges = f"{kind}:{'.'.join(f'0-{length - 1}' for length in shape)}"
    mask = np.ones(len(places), bool)
    if len(parts) != len(shape) or None in parts:
        raise ExperimentError(f"'{kind}:{item}' is none of {ranges}; * stands for all of a place.")
    for axis, (part, length) in enumerate(zip(parts, shape, strict=True)):
        assert part is not None
        if part["low"] is None:
            continue
        low = int(part["low"])
        high = int(part["high"] or low)
        if not low <= high < length:
            raise ExperimentError(f"there is no {kind}:{item}; this fabric has {ranges} (all count from 0).")
        mask &= (places[:, axis] >= low) & (places[:, axis] <= high)
    if not mask.any():
        raise ExperimentError(f"there is no {kind}:{item}; these places of {ranges} are empty.")
    return mask
