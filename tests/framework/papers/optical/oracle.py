"""Plans carried out link by link with sets and dictionaries: slow, and nothing of the code under test."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from railweave.framework.papers.optical.lightpath_plan import LightpathPlan

Row = tuple[int, int, int, int, bool, int]


def rows(plan: LightpathPlan) -> Iterator[Row]:
    """(step, src, dst, item, up, wavelength)."""
    columns = (plan.step, plan.src, plan.dst, plan.item, plan.up, plan.wavelength)
    yield from zip(*(column.tolist() for column in columns), strict=True)


def cables(n: int, src: int, dst: int, up: bool) -> list[tuple[int, bool]]:
    """The directed links from src to dst, as (node left, up)."""
    found, here = [], src
    while here != dst:
        found.append((here, up))
        here = (here + (1 if up else -1)) % n
    return found


def shared(plan: LightpathPlan) -> list[tuple[int, int, bool, int]]:
    """(step, node, up, wavelength) of every link and wavelength that two pairs use in one step."""
    users: dict[tuple[int, int, bool, int], set[tuple[int, int]]] = {}
    for step, src, dst, _, up, wavelength in rows(plan):
        assert 0 <= wavelength < plan.wavelengths
        for node, way in cables(plan.nodes, src, dst, up):
            users.setdefault((step, node, way, wavelength), set()).add((src, dst))
    return [place for place, pairs in users.items() if len(pairs) > 1]


def gathered(plan: LightpathPlan) -> list[set[int]]:
    """What each node holds at the end; every item sent was held before the step and came once."""
    held = [{node} for node in range(plan.nodes)]
    now, fresh = -1, list[tuple[int, int]]()
    for step, src, dst, item, _, _ in rows(plan):
        if step != now:
            for node, new in fresh:
                held[node].add(new)
            now, fresh = step, []
        assert item in held[src], (step, src, item)
        assert item not in held[dst] and (dst, item) not in fresh, (step, dst, item)
        fresh.append((dst, item))
    for node, new in fresh:
        held[node].add(new)
    return held


def item_times(plan: LightpathPlan) -> int:
    """Over the steps, the most items of one pair on one wavelength."""
    count: Counter[tuple[int, int, int, int]] = Counter(
        (step, src, dst, wavelength) for step, src, dst, _, _, wavelength in rows(plan)
    )
    most: dict[int, int] = {}
    for (step, *_), items in count.items():
        most[step] = max(most.get(step, 0), items)
    assert sorted(most) == list(range(plan.n_steps)), "a step without lightpaths"
    return sum(most.values())
