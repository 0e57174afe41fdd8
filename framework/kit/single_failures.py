"""A router under each single failure: sound paths, no connected pair without a path, no deadlock."""

from dataclasses import dataclass

from railweave.framework.errors import RailweaveError
from railweave.framework.kit.checks import channels, deadlock, unequal
from railweave.framework.kit.failures import Failure, failures
from railweave.framework.kit.report import Outcome, Violation
from railweave.framework.kit.samples import Sample
from railweave.framework.kit.soundness import cut_off, unsound
from railweave.framework.kit.subject import DEADLOCK_FREE, EQUAL_SPLIT, REROUTES, Subject
from railweave.framework.routing.checks import unreachable_pairs


@dataclass(slots=True)
class _Tally:
    failures: int = 0
    cut: int = 0
    given_up: int = 0
    promised: int = 0
    channels: int = 0


def single_failures(subject: Subject, samples: list[Sample]) -> Outcome:
    """The first violation of each fabric; the detail counts the pairs the router gave up needlessly."""
    wrong, tally = list[Violation](), _Tally()
    for sample in samples:
        held = subject.promises(sample.fabric)
        tally.promised += REROUTES in held
        for failure in failures(sample.fabric):
            violation = _under(subject, sample, failure, held, tally)
            if violation is not None:
                wrong.append(violation)
                break
    detail = (
        f"{tally.failures} links, cables and switches down one by one; {tally.cut} pairs cut by the fabric"
    )
    if tally.given_up:
        detail += f", {tally.given_up} given up by the router"
    if tally.promised < len(samples):
        detail += f" (reroutes promised on {tally.promised} of {len(samples)} fabrics)"
    if tally.channels:
        detail += f"; no deadlock with {tally.channels} virtual channels"
    return Outcome.of("single failures", wrong, detail)


def _under(
    subject: Subject, sample: Sample, failure: Failure, held: frozenset[str], tally: _Tally
) -> Violation | None:
    fabric, where = sample.fabric, f"{sample.name}, {failure.name}"
    tally.failures += 1
    try:
        table = subject.ask(fabric, failure.health)
    except RailweaveError as error:
        return Violation(where, str(error))
    if (violation := unsound(where, fabric, table, failure.health)) is not None:
        return violation
    cut = cut_off(where, fabric, failure.health, unreachable_pairs(table))
    tally.cut += cut.pairs - cut.wrongly
    tally.given_up += cut.wrongly
    if REROUTES in held and cut.violation is not None:
        return cut.violation
    if EQUAL_SPLIT in held and (violation := unequal(where, fabric, table)[0]) is not None:
        return violation
    if DEADLOCK_FREE not in held:
        return None
    tally.channels = max(tally.channels, channels(table))
    return deadlock(where, fabric, table)
