"""The checks of a router's tables on small fabrics."""

from collections.abc import Iterator
from contextlib import suppress
from copy import deepcopy

import numpy as np

from railweave.framework.errors import RailweaveError, UnsupportedFabricError
from railweave.framework.kit.failures import scored
from railweave.framework.kit.report import Outcome, Violation
from railweave.framework.kit.samples import Sample, serves
from railweave.framework.kit.soundness import cut_off, pair_text, paths_text, unsound
from railweave.framework.kit.subject import DEADLOCK_FREE, EQUAL_SPLIT, Subject
from railweave.framework.model import Fabric, HealthSnapshot, Path, RouteTable, all_pairs
from railweave.framework.routing.batches import all_paths, batches
from railweave.framework.routing.checks import unreachable_pairs
from railweave.framework.routing.dependencies import channel_cycle
from railweave.framework.routing.router_calls import ask

SEEDS = (1, 2)
OTHER_SEED = 3
EQUAL_SHARES_WITHIN = 1e-9


def without_damage(fabric: Fabric) -> Iterator[tuple[str, HealthSnapshot]]:
    """Healthy, then with scores drawn at random; what to add to the fabric's name, and the health."""
    yield "", HealthSnapshot.healthy(fabric)
    for seed in SEEDS:
        yield f", scores of seed {seed}", scored(fabric, seed)


def every_pair_reached(subject: Subject, samples: list[Sample]) -> tuple[Outcome, list[Sample]]:
    """Whether all paths exist and are sound while nothing is down; and the samples where that is so.

    A fabric of a kind it serves may be refused (UnsupportedFabricError), but not all of a kind.
    """
    wrong, good = list[Violation](), list[Sample]()
    refused: dict[str, Violation] = {}
    for sample in samples:
        try:
            violation = _first_wrong(subject, sample)
        except UnsupportedFabricError as error:
            refused[sample.fabric.kind] = Violation(
                sample.name, f"serves names {sample.fabric.kind}, but: {error}"
            )
            continue
        if violation is None:
            good.append(sample)
        else:
            wrong.append(violation)
    served = {s.fabric.kind for s in good} | {w.fabric.split(" ")[0] for w in wrong}
    wrong += [violation for kind, violation in refused.items() if kind not in served]
    pairs = sum(s.fabric.n_gpus * (s.fabric.n_gpus - 1) for s in samples)
    return Outcome.of("every pair reached", wrong, f"{pairs} pairs of {len(samples)} fabrics, no loop"), good


def _first_wrong(subject: Subject, sample: Sample) -> Violation | None:
    fabric = sample.fabric
    for suffix, health in without_damage(fabric):
        where = sample.name + suffix
        try:
            table = subject.ask(fabric, health)
        except UnsupportedFabricError:
            raise
        except RailweaveError as error:
            return Violation(where, str(error))
        if table.version != health.version:
            return Violation(
                where, f"the table has version {table.version}; it must be health.version, {health.version}"
            )
        if (own := subject.made().routes(fabric, health).router) != subject.name:
            return Violation(where, f"the table is of router {own!r}; it must be of {subject.name!r}")
        if (violation := unsound(where, fabric, table, health)) is not None:
            return violation
        if (violation := cut_off(where, fabric, health, unreachable_pairs(table)).violation) is not None:
            return violation
    return None


def equal_split(subject: Subject, samples: list[Sample]) -> Outcome:
    """Where it is promised: all paths of a pair weigh the same."""
    held = [s for s in samples if EQUAL_SPLIT in subject.promises(s.fabric)]
    if not held:
        return Outcome("equal split", "skipped", "not promised")
    wrong, split = list[Violation](), 0
    for sample in held:
        for suffix, health in without_damage(sample.fabric):
            violation, several = unequal(
                sample.name + suffix, sample.fabric, subject.ask(sample.fabric, health)
            )
            split += several
            if violation is not None:
                wrong.append(violation)
                break
    return Outcome.of("equal split", wrong, f"{split} pairs with several paths")


def unequal(where: str, fabric: Fabric, table: RouteTable) -> tuple[Violation | None, int]:
    """The first pair whose paths do not weigh the same, and how many pairs have several."""
    split = 0
    for batch in batches(table):
        count = np.diff(batch.pair_start)
        split += int((count > 1).sum())
        off = np.abs(batch.weight - 1 / count[batch.path_pair]) > EQUAL_SHARES_WITHIN
        if off.any():
            pair = int(batch.path_pair[np.flatnonzero(off)[0]])
            src, dst = int(batch.src[pair]), int(batch.dst[pair])
            return Violation(
                where, f"unequal split over {count[pair]} paths", pair_text(fabric, src, dst),
                paths_text(fabric, src, batch.paths(pair)),
            ), split  # fmt: skip
    return None, split


def deterministic(subject: Subject, samples: list[Sample]) -> Outcome:
    """Equal input gives equal tables: asked again, of a second instance, after another question, in part."""
    wrong = list[Violation]()
    for sample in samples:
        for suffix, health in without_damage(sample.fabric):
            violation = _differing(subject, sample.name + suffix, sample.fabric, health)
            if violation is not None:
                wrong.append(violation)
                break
    return Outcome.of("equal in, equal out", wrong, "asked again, a second instance, other order")


def _differing(subject: Subject, where: str, fabric: Fabric, health: HealthSnapshot) -> Violation | None:
    same = subject.made()
    first = ask(same, subject.name, fabric, health)
    ask(same, subject.name, fabric, scored(fabric, OTHER_SEED)).path(0, 1)
    tables = {
        "the same table asked again": first,
        "the same router asked again": ask(same, subject.name, fabric, health),
        "a second instance": subject.ask(fabric, health),
    }
    src, dst = all_pairs(fabric.n_gpus)
    whole = all_paths(first)
    for who, table in tables.items():
        answer = table.paths(src, dst)
        if answer != whole:
            for pair in range(len(src)):
                before, now = whole.paths(pair), answer.paths(pair)
                if before != now:
                    return _apart(
                        fabric, where, f"{who} answers otherwise", (src[pair], dst[pair]), before, now
                    )
            return Violation(where, f"{who} answers otherwise, in its virtual channels or its layout")
    back = first.paths(src[::-1], dst[::-1])
    for pair in range(0, len(src), 1 + len(src) // 500):
        before, now = whole.paths(pair), back.paths(len(src) - 1 - pair)
        alone = first.path(int(src[pair]), int(dst[pair]))
        for who, paths in (("asked in another order", now), ("asked alone", alone)):
            if before != paths:
                return _apart(
                    fabric, where, f"{who} it has other paths", (src[pair], dst[pair]), before, paths
                )
    return None


def _apart(
    fabric: Fabric, where: str, why: str, pair: tuple[int, int], *answers: tuple[Path, ...]
) -> Violation:
    src, dst = int(pair[0]), int(pair[1])
    texts = [paths_text(fabric, src, answer) for answer in answers]
    return Violation(where, f"not deterministic: {why}", pair_text(fabric, src, dst), ", then ".join(texts))


def pure(subject: Subject, samples: list[Sample]) -> Outcome:
    """Fabric and health are the same afterwards. The first check, while the samples are as built."""
    wrong = list[Violation]()
    for sample in samples:
        fabric, health = deepcopy(sample.fabric), scored(sample.fabric, SEEDS[0])
        before = deepcopy(health)
        with suppress(RailweaveError):  # every_pair_reached reports it
            all_paths(subject.ask(fabric, health))
        for what, changed in (("the fabric", fabric != sample.fabric), ("the health", health != before)):
            if changed:
                wrong.append(Violation(sample.name, f"it changes {what}"))
    return Outcome.of("changes nothing", wrong, "fabric and health as before")


def deadlock_free(subject: Subject, samples: list[Sample]) -> Outcome:
    """Where it is promised: no cycle of channels, healthy and with scores."""
    held = [s for s in samples if DEADLOCK_FREE in subject.promises(s.fabric)]
    if not held:
        return Outcome("no deadlock", "skipped", "no lossless fabric, or not promised")
    wrong = list[Violation]()
    most = 0
    for sample in held:
        table = subject.ask(sample.fabric, HealthSnapshot.healthy(sample.fabric))
        most = max(most, channels(table))
        if (violation := deadlock(sample.name, sample.fabric, table)) is not None:
            wrong.append(violation)
    return Outcome.of("no deadlock", wrong, f"{len(held)} fabrics, {most} virtual channels")


def deadlock(where: str, fabric: Fabric, table: RouteTable) -> Violation | None:
    """The violation for channels that wait for each other, if they do."""
    cycle = channel_cycle(fabric, table)
    if cycle is None:
        return None
    return Violation(where, f"deadlock: {len(cycle)} channels wait for each other", path=" -> ".join(cycle))


def channels(table: RouteTable) -> int:
    """How many virtual channels the paths use."""
    return max(1 if b.vc is None else 1 + int(b.vc.max(initial=0)) for b in batches(table))


def refuses_others(subject: Subject, samples: list[Sample]) -> Outcome:
    """One fabric of each kind that it does not serve must raise UnsupportedFabricError."""
    others = {s.fabric.kind: s for s in samples if not serves(subject.registered, s.fabric)}
    if not others:
        return Outcome("refuses others", "skipped", "it serves every kind")
    wrong = []
    for sample in others.values():
        try:
            subject.ask(sample.fabric, HealthSnapshot.healthy(sample.fabric))
        except UnsupportedFabricError:
            continue
        except RailweaveError as error:
            why = f"raises {type(error).__name__} instead of UnsupportedFabricError: {error}"
        else:
            why = "returns routes; it must raise UnsupportedFabricError"
        wrong.append(Violation(sample.name, f"serves does not name {sample.fabric.kind}, and it {why}"))
    return Outcome.of("refuses others", wrong, ", ".join(others))
