"""The checks of a router's tables on small fabrics."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from copy import deepcopy
from dataclasses import dataclass
from functools import partial
from itertools import chain

import numpy as np

from railweave.framework.errors import RailweaveError, UnsupportedFabricError
from railweave.framework.kit.check_report import Broken, Outcome, Violation
from railweave.framework.kit.soundness import (
    check_paths,
    connected,
    failures,
    no_path,
    pair_text,
    paths_text,
    scored,
)
from railweave.framework.kit.subject import DEADLOCK_FREE, EQUAL_SPLIT, REROUTES, Sample, Subject
from railweave.framework.model import Fabric, HealthSnapshot, Path, RouteTable, all_pairs
from railweave.framework.model.capabilities import why_unserved
from railweave.framework.routing.batches import all_paths, batches
from railweave.framework.routing.dependencies import channel_cycle
from railweave.framework.routing.router_calls import ask, unguarded

SEEDS = (1, 2)
OTHER_SEED = 3
"""Seeds of drawn scores; that of the question between two equal ones."""
EQUAL_SHARES_WITHIN = 1e-9
"""Difference of weights that rounding explains."""

Case = tuple[str, HealthSnapshot]
"""What befalls a fabric, in words, and its health."""


def healthy(fabric: Fabric) -> Iterator[Case]:
    yield "", HealthSnapshot.healthy(fabric)


def without_damage(fabric: Fabric) -> Iterator[Case]:
    """Healthy, then with scores drawn at random."""
    yield from healthy(fabric)
    for seed in SEEDS:
        yield f"scores of seed {seed}", scored(fabric, seed)


def first_broken(
    sample: Sample,
    cases: Callable[[Fabric], Iterable[Case]],
    check: Callable[[Fabric, HealthSnapshot], None],
    *,
    passing: type[RailweaveError] | tuple[()] = (),
) -> list[Violation]:
    """The first case of a fabric in which `check` raises an error, if any does; `passing` is not caught."""
    for case, health in cases(sample.fabric):
        try:
            check(sample.fabric, health)
        except passing:
            raise
        except RailweaveError as error:
            return [Violation.of(f"{sample.name}, {case}" if case else sample.name, error)]
    return []


def every_pair_reached(subject: Subject, samples: list[Sample]) -> tuple[Outcome, list[Sample]]:
    """Whether all paths exist and are sound while nothing is down; and the samples where that is so.

    A fabric of a kind it serves may be refused (UnsupportedFabricError), but not all of a kind.
    """

    def check(fabric: Fabric, health: HealthSnapshot) -> None:
        table = subject.ask(fabric, health)
        if table.version != health.version:
            raise Broken(
                f"the table has version {table.version}; it must be health.version, {health.version}"
            )
        if (router_name := unguarded(subject.made(), fabric, health).router) not in ("", subject.name):
            raise Broken(f"the table is of router {router_name!r}; it must be of {subject.name!r}")
        if given_up := connected(fabric, health, check_paths(fabric, table, health)):
            raise no_path(fabric, *given_up[0])

    wrong, good = list[Violation](), list[Sample]()
    refused, answered = dict[str, Violation](), set[str]()
    for sample in samples:
        kind = sample.fabric.kind
        try:
            violations = first_broken(sample, without_damage, check, passing=UnsupportedFabricError)
        except UnsupportedFabricError as error:
            refused[kind] = Violation(sample.name, f"serves names {kind}, but: {error}")
        else:
            answered.add(kind)
            wrong += violations
            good += [] if violations else [sample]
    wrong += [violation for kind, violation in refused.items() if kind not in answered]
    pairs = sum(s.fabric.n_gpus * (s.fabric.n_gpus - 1) for s in samples)
    return Outcome.of("every pair reached", wrong, f"{pairs} pairs of {len(samples)} fabrics, no loop"), good


def equal_split(subject: Subject, tally: Counter[str], fabric: Fabric, health: HealthSnapshot) -> None:
    check_shares(fabric, subject.ask(fabric, health), tally)


def check_shares(fabric: Fabric, table: RouteTable, tally: Counter[str]) -> None:
    """Raises Broken for the first pair whose paths do not weigh the same; counts those with several."""
    for batch in batches(table):
        count = np.diff(batch.pair_start)
        tally["split"] += int((count > 1).sum())
        off = np.abs(batch.weight - 1 / count[batch.path_pair]) > EQUAL_SHARES_WITHIN
        if off.any():
            pair = int(batch.path_pair[np.flatnonzero(off)[0]])
            src, dst = int(batch.src[pair]), int(batch.dst[pair])
            raise Broken(
                f"unequal split over {count[pair]} paths", pair_text(fabric, src, dst),
                paths_text(fabric, src, batch.paths(pair)),
            )  # fmt: skip


def deterministic(subject: Subject, _: Counter[str], fabric: Fabric, health: HealthSnapshot) -> None:
    """Equal input gives equal tables: asked again, of a second instance, after another question, in part."""
    same = subject.made()
    first = ask(same, subject.name, fabric, health)
    ask(same, subject.name, fabric, scored(fabric, OTHER_SEED)).path(0, 1)
    tables = {
        "the same table asked again": first,
        "the same router asked again": ask(same, subject.name, fabric, health),
        "a second instance": subject.ask(fabric, health),
    }
    src, dst = all_pairs(fabric.n_gpus)
    pairs = list(zip(src.tolist(), dst.tolist(), strict=True))
    reference = all_paths(first)
    for who, table in tables.items():
        answer = table.paths(src, dst)
        if answer != reference:
            for i, pair in enumerate(pairs):
                _check_same(fabric, f"{who} answers otherwise", pair, reference.paths(i), answer.paths(i))
            raise Broken(f"{who} answers otherwise, in its virtual channels or its layout")
    back = first.paths(src[::-1], dst[::-1])
    for i in range(0, len(pairs), 1 + len(pairs) // 500):
        others = {"in another order": back.paths(len(pairs) - 1 - i), "alone": first.path(*pairs[i])}
        for how, paths in others.items():
            _check_same(fabric, f"asked {how} it has other paths", pairs[i], reference.paths(i), paths)


def _check_same(
    fabric: Fabric, why: str, pair: tuple[int, int], before: tuple[Path, ...], now: tuple[Path, ...]
) -> None:
    if before != now:
        texts = (paths_text(fabric, pair[0], answer) for answer in (before, now))
        raise Broken(f"not deterministic: {why}", pair_text(fabric, *pair), ", then ".join(texts))


def pure(subject: Subject, samples: list[Sample]) -> Outcome:
    """Fabric and health are the same afterwards. The first check, while the samples are as built."""
    wrong = list[Violation]()
    for sample in samples:
        fabric, health = deepcopy(sample.fabric), scored(sample.fabric, SEEDS[0])
        before = deepcopy(health)
        with suppress(RailweaveError):  # every_pair_reached reports it
            all_paths(subject.ask(fabric, health))
        unlike = {"the fabric": fabric != sample.fabric, "the health": health != before}
        wrong += [Violation(sample.name, f"it changes {part}") for part, changed in unlike.items() if changed]
    return Outcome.of("changes nothing", wrong, "fabric and health as before")


def deadlock_free(subject: Subject, tally: Counter[str], fabric: Fabric, health: HealthSnapshot) -> None:
    check_channels(fabric, subject.ask(fabric, health), tally)


def check_channels(fabric: Fabric, table: RouteTable, tally: Counter[str]) -> None:
    """Raises Broken for channels that wait for each other; keeps the most virtual channels that paths use."""
    used = (1 if b.vc is None else 1 + int(b.vc.max(initial=0)) for b in batches(table))
    tally["channels"] = max(tally["channels"], *used)
    if (cycle := channel_cycle(fabric, table)) is not None:
        raise Broken(f"deadlock: {len(cycle)} channels wait for each other", "", " -> ".join(cycle))


def refuses_others(subject: Subject, samples: list[Sample]) -> Outcome:
    """One fabric of each kind that it does not serve must raise UnsupportedFabricError."""
    others = {s.fabric.kind: s for s in samples if why_unserved(subject.registered, s.fabric)}
    if not others:
        return Outcome("refuses others", "skipped", "it serves every kind")
    wrong = []
    for sample in others.values():
        why = "returns routes; it must raise UnsupportedFabricError"
        try:
            subject.ask(sample.fabric, HealthSnapshot.healthy(sample.fabric))
        except UnsupportedFabricError:
            continue
        except RailweaveError as error:
            why = f"raises {type(error).__name__} instead of UnsupportedFabricError: {error}"
        wrong.append(Violation(sample.name, f"serves does not name {sample.fabric.kind}, and it {why}"))
    return Outcome.of("refuses others", wrong, ", ".join(others))


def single_failure(subject: Subject, tally: Counter[str], fabric: Fabric, health: HealthSnapshot) -> None:
    """Sound paths, no connected pair without a path, no deadlock, as far as they are promised; counts the
    pairs the router gave up needlessly."""
    tally["failures"] += 1
    table, promises = subject.ask(fabric, health), subject.promises(fabric)
    cut = check_paths(fabric, table, health)
    given_up = connected(fabric, health, cut)
    tally["cut"] += len(cut) - len(given_up)
    tally["given up"] += len(given_up)
    if REROUTES in promises and given_up:
        raise no_path(fabric, *given_up[0])
    if EQUAL_SPLIT in promises:
        check_shares(fabric, table, tally)
    if DEADLOCK_FREE in promises:
        check_channels(fabric, table, tally)


def _failures_told(tally: Counter[str]) -> str:
    text = (
        f"{tally['failures']} links, cables and switches down one by one; {tally['cut']} pairs cut by the "
        "fabric"
    )
    if tally["given up"]:
        text += f", {tally['given up']} given up by the router"
    if tally[REROUTES] < tally["fabrics"]:
        text += f" (reroutes promised on {tally[REROUTES]} of {tally['fabrics']} fabrics)"
    return text + (f"; no deadlock with {tally['channels']} virtual channels" if tally["channels"] else "")


@dataclass(frozen=True)
class RouterCheck:
    """A check of a router on the fabrics where its first answers were sound; under a `promise` only where the
    router makes it, and `otherwise` says why nothing was checked.

    `check` raises an error for what is wrong in one of the `cases` of a fabric. It counts in a tally, which
    begins with the number of fabrics, and of those on which each promise is made; `detail` is the tally in
    words.
    """

    name: str
    check: Callable[[Subject, Counter[str], Fabric, HealthSnapshot], None]
    detail: Callable[[Counter[str]], str]
    cases: Callable[[Fabric], Iterator[Case]] = without_damage
    promise: str = ""
    otherwise: str = ""

    def outcome(self, subject: Subject, samples: list[Sample], progress: Callable[[str], None]) -> Outcome:
        """A router that answered before and fails now breaks the rule, too."""
        if not samples:
            return Outcome(self.name, "skipped", "no fabric that it routes")
        try:
            promises = {s.name: subject.promises(s.fabric) for s in samples}
        except RailweaveError as error:
            return Outcome.of(self.name, [Violation.of("", error)], "")
        tally = Counter(fabrics=len(samples)) + Counter(chain.from_iterable(promises.values()))
        checked = [s for s in samples if not self.promise or self.promise in promises[s.name]]
        if not checked:
            return Outcome(self.name, "skipped", self.otherwise)
        check = partial(self.check, subject, tally)
        wrong = list[Violation]()
        for number, sample in enumerate(checked, 1):
            progress(f"{self.name}: {sample.name}, fabric {number} of {len(checked)}")
            wrong += first_broken(sample, self.cases, check)
        return Outcome.of(self.name, wrong, self.detail(tally))


RULES = (
    RouterCheck(
        "equal in, equal out", deterministic, lambda tally: "asked again, a second instance, other order"
    ),
    RouterCheck(
        "equal split", equal_split, lambda tally: f"{tally['split']} pairs with several paths",
        promise=EQUAL_SPLIT, otherwise="not promised",
    ),
    RouterCheck("single failures", single_failure, _failures_told, cases=failures),
    RouterCheck(
        "no deadlock", deadlock_free,
        lambda tally: f"{tally[DEADLOCK_FREE]} fabrics, {tally['channels']} virtual channels",
        cases=healthy, promise=DEADLOCK_FREE, otherwise="no lossless fabric, or not promised",
    ),
)  # fmt: skip
