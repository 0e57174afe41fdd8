"""Points: how many there are, what each is made of, and what it is known by."""

from __future__ import annotations

from itertools import islice
from pathlib import Path

import pytest

from railweave.framework.studies.points import Drawn, Listed, Study, Value

BASE = {
    "topology": {"name": "rail-only", "domains": 4},
    "size": "1M",
    "faults": ["at=iter:2 degrade {at} to=20%"],
}
ROUTERS = Listed.of({"router": "hscore"}, {"router": "spray"}, {"router": "shortest"})
PLACES = Listed.of({"at": "rail:0"}, {"at": "rail:1"})


def ids(study: Study) -> list[str]:
    return [point.id for point in study.points()]


def test_a_grid_has_every_combination_for_every_seed_and_repeat() -> None:
    """Counted: 3 x 2 settings, 4 seeds, 2 repeats."""
    study = Study("s", BASE, (ROUTERS, PLACES), seeds=4, repeats=2)
    assert study.count == len(set(ids(study))) == 3 * 2 * 4 * 2
    first = [*islice(study.points(), 6)]
    assert [tuple(point.settings.values()) for point in first[:3]] == [
        ("hscore", "rail:0"), ("hscore", "rail:1"), ("spray", "rail:0"),
    ]  # fmt: skip
    assert {point.seed for point in first} == {1}  # what differs in settings runs in turn


def test_words_fill_the_texts_and_set_no_key() -> None:
    study = Study("s", BASE, (ROUTERS, PLACES))
    base, over = study.keys(next(islice(study.points(), 1, None)))
    assert base["faults"] == ["at=iter:2 degrade rail:1 to=20%"]
    assert over == {"router": "hscore", "seed": 1}


def test_a_key_in_braces_is_both_a_word_and_a_key() -> None:
    study = Study("s", {"directory": "/tmp/{size}-{seed}"}, (Listed.of({"size": "64K"}),))
    base, over = study.keys(next(study.points()))
    assert base["directory"] == "/tmp/64K-1" and over["size"] == "64K"


def test_it_does_not_matter_where_a_key_stands() -> None:
    """A law: the same experiment is the same point, whether the base or an axis says it, in any order."""
    axis = Study("s", {"size": "1M"}, (Listed.of({"router": "spray"}), Listed.of({"topology.domains": 4})))
    base = Study("s", {"topology": {"domains": 4}, "router": "spray", "size": "1M"})
    filled = Study("s", {"faults": ["down {at}"]}, (Listed.of({"at": "rail:1"}),))
    assert ids(axis) == ids(base)
    assert ids(filled) == ids(Study("s", {"faults": ["down rail:1"]}))
    assert ids(Study("other name", BASE, (PLACES,))) == ids(Study("s", BASE, (PLACES,)))


@pytest.mark.parametrize(
    "text", ["rail:1", 'a "quoted" \\ text', "Größe\n\t\x00", "\U0001f600", "{size} of it", 7, 0.5, True]
)
def test_a_text_with_words_is_the_point_of_the_filled_one(text: object) -> None:
    """The same law for texts that JSON has to escape, for numbers, and for braces that no axis fills."""
    axis = (Listed.of({"at": text}),)
    for written in ("{at}", "down {at} of {none}"):
        filled = written.replace("{at}", str(text))
        assert ids(Study("s", {"faults": [written]}, axis)) == ids(Study("s", {"faults": [filled]}))
        assert ids(Study("s", {"directory": written}, axis)) == ids(Study("s", {"directory": filled}))


@pytest.mark.parametrize(
    "other",
    [
        {**BASE, "size": "2M"}, {**BASE, "size": 1}, {**BASE, "size": True}, {**BASE, "size": 1.0},
        {**BASE, "seed": 2}, {**BASE, "faults": ["at=iter:2 degrade {at} to=30%"]},
        {**BASE, "topology": {"name": "rail-only", "domains": 5}}, {**BASE, "iterations": 3},
    ],
)  # fmt: skip
def test_whatever_differs_has_another_id(other: dict[str, object]) -> None:
    everything = [{**BASE, "size": size} for size in ("1M", 1, True, 1.0)]
    ours = [*ids(Study("s", BASE, (PLACES,)))]
    theirs = ids(Study("s", other, (PLACES,)))
    assert not {*ours} & {*theirs}
    assert len({identity for base in everything for identity in ids(Study("s", base))}) == len(everything)


def test_more_seeds_and_repeats_keep_the_points_that_were_there() -> None:
    few, many = Study("s", BASE, (PLACES,)), Study("s", BASE, (PLACES,), seeds=3, repeats=2)
    assert {*ids(few)} < {*ids(many)}


def test_a_sample_begins_as_a_larger_one_does_and_stays_in_its_ranges() -> None:
    depth, rail = Drawn("depth", 0.1, 0.9), Drawn("rail", 0, 7, "whole")
    rate = Drawn("rate", 1.0, 1000.0, "log", "us")
    few, many = (Study("s", BASE, (ROUTERS, depth, rail, rate), sample=n) for n in (10, 400))
    assert ids(few) == ids(many)[:10] and few.count == 10
    drawn = [point.settings for point in many.points()]
    assert all(0.1 <= float(str(d["depth"])) <= 0.9 for d in drawn)
    assert {d["rail"] for d in drawn} == {*range(8)} and {d["router"] for d in drawn} == {
        "hscore", "spray", "shortest",
    }  # fmt: skip
    decades = [float(str(d["rate"]).removesuffix("us")) for d in drawn]
    # a third of them in each decade; the binomial's deviation is 9.4 of 400
    assert all(95 < sum(low <= rate < 10 * low for rate in decades) < 175 for low in (1, 10, 100))
    assert ids(Study("s", BASE, (depth,), sample=5, draw_seed=2)) != ids(Study("s", BASE, (depth,), sample=5))


def test_points_are_made_when_they_are_asked_for() -> None:
    numbers = Listed.of(*({"iterations": n} for n in range(1, 1001)))
    sizes = Listed.of(*({"size": n} for n in range(1000)))
    mtu = Listed.of(*({"seed": n} for n in range(1000)))
    study = Study("s", {}, (numbers, sizes, mtu))
    assert study.count == 10**9
    assert [point.seed for point in islice(study.points(), 3)] == [0, 1, 2]


def test_a_file_counts_by_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seen = set()
    for text in ("one", "two"):
        Path("ring.yaml").write_text(text)
        for base in ({"topology": "file:ring.yaml"}, {"topology": {"name": "file", "file": "ring.yaml"}}):
            seen.add(*ids(Study("s", base)))
    assert len(seen) == 4


def test_what_is_drawn_is_the_same_for_all_settings_of_a_seed() -> None:
    study = Study("s", BASE, (ROUTERS,), (PLACES, Drawn("iterations", 2, 9, "whole")), seeds=40)
    by_seed: dict[int, set[tuple[object, ...]]] = {}
    for point in study.points():
        by_seed.setdefault(point.seed, set()).add(tuple(point.drawn.values()))
        assert [*point.settings] == ["router"] and study.keys(point)[1]["iterations"] in range(2, 10)
    assert len(by_seed) == 40 and all(len(drawn) == 1 for drawn in by_seed.values())
    assert len({place for drawn in by_seed.values() for place, _ in drawn}) == 2
    assert len({*ids(study)}) == study.count == 120


def test_a_value_with_a_label_is_shown_as_that() -> None:
    two = Listed((Value({"lost": "two"}, {"faults": ["down rail:0", "down rail:1"]}),))
    (point,) = Study("s", {"size": "1M"}, (two,)).points()
    assert point.settings == {"lost": "two"}
    plain = Study("s", {"size": "1M", "faults": ["down rail:0", "down rail:1"]})
    assert [point.id] == ids(plain)
