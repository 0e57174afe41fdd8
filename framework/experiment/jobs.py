"""Several jobs on one fabric: what each of them has for itself, and the experiment that it is a part of."""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

from railweave.framework.errors import ExperimentError, did_you_mean
from railweave.framework.experiment.schema import OF_COLLECTIVES, OF_EACH_JOB, OF_PROGRAMS, TRAFFIC
from railweave.framework.experiment.settings import Key, LayeredSettings
from railweave.framework.model import Fabric
from railweave.framework.parameters import Parameter, Value

MOST_JOBS = 64
"""Jobs of one run at most: each has processes, sockets and tables of its own."""
OWN = (
    Parameter("name", "", "text", "what messages and results call it"),
    Parameter("share", False, "bool", "its GPUs may be in other jobs that share, too"),
    Parameter("start", 0.0, "time", "from the start of the jobs to its first iteration", minimum=0),
    Parameter("pause", 0.0, "time", "from the end of an iteration to the next", minimum=0),
    Parameter(
        "on_failure",
        "continue",
        "text",
        "what its failure does to the others: nothing, or it stops all",
        choices=("continue", "stop"),
    ),
)
"""Keys of a job that an experiment with one job does not have."""
KEYS_OF_JOBS = (*(p.name for p in OWN), *OF_EACH_JOB)
_NAME = re.compile(r"\w[\w .-]{0,63}")
EXAMPLE = "'ranks=domain:0-1 collective=all-reduce size=1M'"


@dataclass(frozen=True, slots=True)
class Job:
    """A job, the `number`th from 0; `several`: whether there are others. The rest is described in `OWN`;
    times are emulated seconds."""

    number: int = 0
    several: bool = False
    name: str = "0"
    share: bool = False
    start: float = 0.0
    pause: float = 0.0
    on_failure: str = "continue"

    def document(self) -> dict[str, object]:
        """Plain data that reads back as this job's own keys."""
        return {name: value for name, value in asdict(self).items() if name not in ("number", "several")}


def jobs_of(settings: LayeredSettings, value: object) -> tuple[dict[str, object], ...]:
    """Every job as a mapping; each is one already, or a text `KEY=VALUE KEY=VALUE`. What is wrong with one of
    them is reported. Raises ExperimentError for what is no list of jobs."""
    entries = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(entries, list | tuple) or not entries:
        raise ExperimentError(f"expects a list of jobs, each such as {EXAMPLE} (got {value!r}).")
    if len(entries) > MOST_JOBS:
        raise ExperimentError(f"holds {len(entries)} jobs; {MOST_JOBS} can run together.")
    jobs: list[dict[str, object]] = []
    for number, entry in enumerate(entries):
        try:
            jobs.append(_mapping(entry))
        except ExperimentError as error:
            settings.report(("jobs", number), str(error))
    return tuple(jobs)


def _mapping(entry: object) -> dict[str, object]:
    if isinstance(entry, Mapping):
        return dict(entry)
    if not isinstance(entry, str):
        raise ExperimentError(f"expects keys and values, such as {EXAMPLE} (got {entry!r}).")
    try:
        words = shlex.split(entry)
    except ValueError as error:
        raise ExperimentError(f"{entry!r} cannot be split into words: {error}.") from None
    job: dict[str, Any] = {}
    for word in words:
        path, equals, value = word.partition("=")
        *sections, name = path.replace("-", "_").split(".")
        if not equals or not name:
            raise ExperimentError(f"{word!r} is not KEY=VALUE, as in {EXAMPLE}.")
        place = job
        for section in sections:
            inner = place.get(section, {})
            place[section] = inner if isinstance(inner, dict) else {"name": inner}
            place = place[section]
        if name in TRAFFIC and isinstance(place.get(name), dict):
            place, name = place[name], "name"
        if name in place:
            raise ExperimentError(f"{path} is given twice. Keep one.")
        place[name] = value
    return job


def parted(
    settings: LayeredSettings, jobs: Sequence[Mapping[str, object]]
) -> Iterator[tuple[Job, LayeredSettings, frozenset[str]]]:
    """Each job by itself: the settings of an experiment with this job alone, and the names of the keys that
    are its own. What is wrong with a job's own keys is reported in `settings`.

    A key that a job lacks is the experiment's; so it takes the experiment's traffic only if it names none.
    """
    for number, job in enumerate(jobs):
        fields: dict[str, Value] = {parameter.name: parameter.default for parameter in OWN}
        for parameter in (parameter for parameter in OWN if parameter.name in job):
            try:
                fields[parameter.name] = parameter.parse(job[parameter.name], written=settings.written)
            except ExperimentError as error:
                settings.report(("jobs", number, parameter.name), str(error).partition(": ")[2])
        fields["name"] = fields["name"] or str(number)
        if not _NAME.fullmatch(str(fields["name"])):
            settings.report(
                ("jobs", number, "name"),
                f"{fields['name']!r}: a name holds letters, digits, _, and after the first spaces, . and -.",
            )
        for name in job.keys() - {*KEYS_OF_JOBS}:
            settings.report(
                ("jobs", number, name),
                f"is no key of a job.{did_you_mean(name, KEYS_OF_JOBS)} Keys are: {', '.join(KEYS_OF_JOBS)}.",
            )
        if "ranks" not in job:
            settings.report(
                ("jobs", number), "has no ranks. Say which GPUs it runs on, such as ranks: domain:0-1."
            )
        mine = {name: value for name, value in job.items() if name in OF_EACH_JOB}
        value = {**_inherited(settings.value, mine), **mine, "faults": []}
        marks = {key: mark for key, mark in settings.marks.items() if key[0] in value and key[0] not in mine}
        marks |= {key[2:]: mark for key, mark in settings.marks.items() if key[:2] == ("jobs", number)}
        labels = {key: label for key, label in settings.labels.items() if key[0] not in mine}
        part = LayeredSettings(settings.source, value, marks, labels)
        not_shared = {*mine, *OF_EACH_JOB} - (settings.value.keys() - {*mine})
        parsed_job = Job(number, len(jobs) > 1, **fields)  # type: ignore[arg-type]
        yield parsed_job, part, frozenset((*not_shared, "ranks"))


def _inherited(value: Mapping[str, object], mine: Mapping[str, object]) -> dict[str, object]:
    """What a job with the keys `mine` takes from the experiment `value`."""
    traffic = mine if mine.keys() & {*TRAFFIC} else value
    without = {"jobs", "alone", "faults", "pcap", "trace", "reports", "ranks"}
    without |= {*TRAFFIC} if traffic is mine else set()
    without |= {*OF_COLLECTIVES} if traffic.get("program") else {*OF_PROGRAMS}
    return {name: section for name, section in value.items() if name not in without}


def check_together(
    settings: LayeredSettings, jobs: Sequence[tuple[Job, Sequence[int]]], fabric: Fabric
) -> None:
    """Report names that two jobs have, and GPUs that are in two jobs without `share`."""
    for (first, ranks), (second, others) in combinations(jobs, 2):
        if first.name == second.name:
            settings.report(("jobs", second.number, "name"), f"job {first.number} has it, too. Take another.")
        shared = sorted({*ranks} & {*others})
        if shared and not (first.share and second.share):
            rest = f" and {len(shared) - 1} more are" if len(shared) > 1 else " is"
            settings.report(
                ("jobs", second.number, "ranks"),
                f"{fabric.node_name(shared[0])}{rest} in job {first.name} as well. Choose other ranks, or "
                "give both `share: true`.",
            )


def own_key(number: int, own_keys: frozenset[str], key: Key) -> Key:
    """Where in the experiment a key of a job's settings stands."""
    return ("jobs", number, *key) if key and key[0] in own_keys else key
