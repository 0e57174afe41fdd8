"""What the rows of a study say: a line for each setting, and the sentence that answers its question."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from railweave.framework.studies.points import KeyValues
from railweave.framework.studies.spread import Spread, ratio, spread
from railweave.framework.studies.sweep_file import Judge

Rows = Sequence[Mapping[str, Any]]
USUAL = ("after_us", "interference", "iteration_us")
"""Where no judge asks for a figure, the first of these that any row has is shown."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of one setting, over seeds and repeats. `relative`: the figure over that of the settings that
    the judge compares with, None where there are none; `holds`: whether what is judged is at most what it may
    be, None where the interval holds both or nothing is judged."""

    settings: KeyValues
    figure: str
    value: Spread | None
    relative: Spread | None
    holds: bool | None
    failed: int
    verdicts: tuple[str, ...]


def answers(rows: Rows, judge: Judge | None) -> list[Answer]:
    """A line for each setting, in the order of the rows."""
    groups: dict[tuple[tuple[str, str], ...], list[Mapping[str, Any]]] = {}
    for row in rows:
        groups.setdefault(_key(row["settings"]), []).append(row)
    figure = judge.figure if judge else _usual(rows)
    lines = []
    for some in groups.values():
        settings = some[0]["settings"]
        against = _against(groups, settings, judge)
        relative = _relative(some, against, figure)
        value = spread([row[figure] for row in some if row.get(figure) is not None])
        lines.append(
            Answer(
                settings=settings,
                figure=figure,
                value=value,
                relative=relative,
                holds=_holds(relative if judge and judge.to else value, judge),
                failed=sum(not row["ok"] for row in some),
                verdicts=tuple(sorted({row["verdict"] for row in some if row["ok"]})),
            )
        )
    return lines


def _key(settings: KeyValues) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in settings.items()))


def _usual(rows: Rows) -> str:
    return next((name for name in USUAL if any(row.get(name) is not None for row in rows)), USUAL[-1])


def _against(
    groups: Mapping[tuple[tuple[str, str], ...], Rows], settings: KeyValues, judge: Judge | None
) -> Rows:
    """The rows that the judge compares these settings with; none of these settings themselves."""
    if judge is None or not judge.to:
        return ()
    to = _key({**settings, **judge.to})
    return () if to == _key(settings) else groups.get(to, ())


def _relative(ours: Rows, theirs: Rows, figure: str) -> Spread | None:
    """Over the seeds and repeats that both have; pairs of them are drawn together."""
    values = [
        {(row["seed"], row["repeat"]): row[figure] for row in some if row.get(figure) is not None}
        for some in (ours, theirs)
    ]
    both = [which for which in values[0] if which in values[1]]
    return ratio(*([by_setting[which] for which in both] for by_setting in values), paired=True)


def _holds(judged: Spread | None, judge: Judge | None) -> bool | None:
    if judge is None or judge.at_most is None or judged is None:
        return None
    low, high = (judged.median if end is None else end for end in (judged.low, judged.high))
    return True if high <= judge.at_most else False if low > judge.at_most else None


def sentence(lines: Iterable[Answer], judge: Judge | None) -> str:
    """Where the figure, or what it is relative to others, is most and least; "" where nothing says."""
    relative = judge is not None and bool(judge.to)
    judged = [(line, line.relative if relative else line.value) for line in lines]
    with_figures = [(line, shown) for line, shown in judged if shown is not None]
    if not with_figures:
        return ""
    least, most = (pick(with_figures, key=lambda pair: pair[1].median) for pick in (min, max))
    name = with_figures[0][0].figure
    what = f"{name} is" + (f", relative to {words(judge.to)}," if judge and relative else "")
    text = f"{what} {_shown(most[1])} with {words(most[0].settings)}"
    text += f", and {_shown(least[1])} with {words(least[0].settings)}" if least[0] is not most[0] else ""
    if judge is not None and judge.at_most is not None:
        kept = sum(line.holds is True for line, _ in with_figures)
        text += f"; at most {judge.at_most:g} holds for {kept} of {len(with_figures)} settings"
    return f"{text}."


def _shown(judged: Spread) -> str:
    if judged.low is None or judged.high is None:
        return f"{judged.median:.4g} (one run)"
    return f"{judged.median:.4g} (95 % interval {judged.low:.4g} to {judged.high:.4g}, n = {judged.n})"


def words(settings: KeyValues) -> str:
    """`router=hscore, depth=20%`."""
    return ", ".join(f"{name}={value}" for name, value in settings.items()) or "the one setting"
