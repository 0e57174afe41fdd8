"""What a page shows of a run's events: one reducer, for a run that goes on, one that ended, and one that was
killed."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from math import inf
from typing import Any, Self

from railweave.framework.judging.rows import REPAIRS, part_of
from railweave.framework.page.data.page_data import ITERATIONS, MARKS, Mark
from railweave.framework.results.result import RunResult


@dataclass
class Course:
    """A run as its events describe it: `take` each in order, a line of events.jsonl as a document.

    `ended`: iterations, without those that jobs run alone; `iterations`: of the first ITERATIONS the columns
    of page_data.Iterations that events fill, `last`: those of the latest. `marks`: faults and reroutes, each
    with its weight and without its items. `broken_s`, `answered_s`: when the first fault was injected, and
    when something answered it.
    """

    iterations: list[dict[str, Any]] = field(default_factory=list)
    last: dict[str, Any] = field(default_factory=dict)
    marks: list[tuple[float, Mark]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ended: int = 0
    end_s: float = 0.0
    rate_scale: float | None = None
    broken_s: float = inf
    answered_s: float = inf

    @classmethod
    def of(cls, events: Iterable[Mapping[str, Any]]) -> Self:
        """What all of them say."""
        course = cls()
        for event in events:
            course.take(event)
        return course

    def copy(self) -> Self:
        """One that later events leave as it is."""
        return replace(self, iterations=[*self.iterations], marks=[*self.marks], notes=[*self.notes])

    def take(self, event: Mapping[str, Any]) -> dict[str, Any]:
        """What the event adds to a RunPage: an entry, by the name of its list or of its columns."""
        kind = event["kind"]
        if kind == "iteration" and not event.get("alone"):
            return self._iteration(event)
        if kind == "fault":
            repairs = not set(REPAIRS).isdisjoint(event["text"].split())
            return self._mark(Mark(event["t_s"], kind, event["text"]), inf, answers=repairs)
        if kind == "reroute":
            text = f"{event['pairs_changed']} pairs, because {event['why']}"
            return self._mark(Mark(event["t_s"], kind, text), event["pairs_changed"], answers=True)
        if kind == "note" and len(self.notes) < MARKS:
            self.notes.append(event["text"])
            return {"notes": event["text"]}
        scale = event.get("rate_scale")
        if isinstance(scale, int | float) and 0 < scale <= 1:
            self.rate_scale = scale
        return {}

    def heaviest(self) -> list[tuple[float, Mark]]:
        """MARKS at most: faults, then the reroutes of the most pairs."""
        return sorted(self.marks, key=lambda mark: -mark[0])[:MARKS]

    def _iteration(self, event: Mapping[str, Any]) -> dict[str, Any]:
        seconds = float(event["seconds"])
        end_s = event.get("end_s", self.end_s + seconds)
        self.ended, self.end_s = self.ended + 1, max(self.end_s, end_s)
        part = part_of([(self.broken_s, False)], [self.answered_s])
        row = {
            "number": event["iteration"],
            "job": event.get("job", 0),
            "begin_s": round(end_s - seconds, 6),
            "seconds": seconds,
            "wrong": event.get("wrong"),
            "part": part(end_s - seconds, end_s),
        }
        self.last = row
        if len(self.iterations) == ITERATIONS:
            return {}
        self.iterations.append(row)
        return {"iterations": row}

    def _mark(self, mark: Mark, weight: float, *, answers: bool) -> dict[str, Any]:
        self.end_s = max(self.end_s, mark.t_s)
        if not answers:
            self.broken_s = min(self.broken_s, mark.t_s)
        elif mark.t_s >= self.broken_s:
            self.answered_s = min(self.answered_s, mark.t_s)
        self.marks.append((weight, mark))
        if len(self.marks) > 2 * MARKS:
            self.marks = self.heaviest()
        return {"marks": mark}


def events_of(result: RunResult) -> list[Mapping[str, Any]]:
    """The events of a page, as a result has them: for a run whose own are damaged."""
    rows = [(row.t_s + row.time_us * 1e-6, row) for row in result.rows if row.iteration is not None]
    events: list[Mapping[str, Any]] = [
        {"kind": "iteration", "t_s": end_s, "end_s": end_s, "iteration": row.iteration, "job": row.job,
         "seconds": row.time_us * 1e-6, "wrong": row.wrong} for end_s, row in rows
    ]  # fmt: skip
    events += [{"kind": "fault", "t_s": f.t_s, "text": f.text} for f in result.faults if f.t_s is not None]
    events += [{"kind": "reroute", **asdict(reroute)} for reroute in result.reroutes]
    events += [{"kind": "note", "t_s": inf, "text": text} for text in result.notes]
    return sorted(events, key=lambda event: event["t_s"])


def placed(mark: Mark, names: Sequence[str], *links: str) -> Mark:
    """A mark with the items that its text names, and these `links`; `names`: of all items."""
    words = {*mark.text.split(), *links}
    return replace(mark, items=tuple(item for item, name in enumerate(names) if name in words))
