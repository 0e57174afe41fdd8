"""Traps after the YAML 1.1 specification (yaml.org/type: bool, int, float, merge, timestamp)."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.settings import FilePlace
from railweave.framework.experiment.yaml_reader import parse, read, written


def test_places_of_keys_and_entries_count_from_one() -> None:
    marked = parse("a: 1\nb:\n  c: x\nd:\n  - y\n  - z\n", "f.yaml")
    assert marked.value == {"a": 1, "b": {"c": "x"}, "d": ["y", "z"]}
    assert marked.marks[("b", "c")] == FilePlace(3, 3)
    assert marked.marks[("d", 1)] == FilePlace(6, 5)


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("no", "no"),
        ("Yes", "Yes"),
        ("off", "off"),
        ("10:30", "10:30"),
        ("2026-11-20", "2026-11-20"),
        ("0x1f", "0x1f"),
        ("'012'", "012"),
        ("1e3", 1000.0),
        ("true", True),
        ("-7", -7),
        ("0.5", 0.5),
        ("0", 0),
        ("1_000", "1_000"),
        ("200Gb/s", "200Gb/s"),
        ('"12"', "12"),
    ],
)
def test_scalars_mean_what_they_look_like(written: str, meant: object) -> None:
    value = parse(f"a: {written}", "f").value["a"]
    assert value == meant
    assert type(value) is type(meant)


@pytest.mark.parametrize(
    "text",
    ["", "~", "null", "true", "FALSE", "1e3", "-7", "0.5", ".5", "012", "1_000", "no", "10:30", "2026-11-20",
     "<<", "=", "*x", "&x", "!x", "- a", "a: b", "a #b", " a ", "a\nb", "[", "'", "\u2028", "9" * 50],
)  # fmt: skip
def test_texts_are_written_so_that_they_read_back(text: str) -> None:
    document = {"a": text, "b": [text], "c": {"d": text}}
    again = parse(written(document), "f")
    assert again.value == document and not again.problems


def test_words_that_mean_themselves_are_written_without_quotes() -> None:
    assert written({"a": "rail-only", "b": "400Gb/s", "c": "1e3"}) == "a: rail-only\nb: 400Gb/s\nc: '1e3'\n"


def test_pyyaml_alone_would_fall_into_the_traps() -> None:
    assert yaml.safe_load("[no, 10:30, 012]") == [False, 630, 10]


@pytest.mark.parametrize(
    ("text", "line", "column", "words"),
    [
        ("a: 012", 1, 4, "octal"),
        ("a:\nb: 1", 1, 3, "no value"),
        ("a: ~", 1, 4, "no value"),
        ("a: 1\nb: 2\na: 3", 3, 1, "twice, first on line 1"),
        ("a: &x {c: 1}\nb: *x", 2, 4, "alias"),
        ("a: &x [1, *x]", 1, 11, "alias"),
        ("a: 1\n{b: [2]}: [{c: d}]", 2, 1, "a key must be a word"),
        ("a: !x {b: [1, 2]}", 1, 4, "the tag !x"),
        ("a: !!python/object:os.system x", 1, 4, "tag"),
        ("a: {<<: {c: 1}}", 1, 5, "<<"),
        ("1: x\n[a]: y", 2, 1, "a key must be a word"),
    ],
)
def test_what_is_refused_is_left_out_and_placed(text: str, line: int, column: int, words: str) -> None:
    problems = parse(text, "f").problems
    assert len(problems) == 1
    assert words in problems[0].message
    assert problems[0].mark == FilePlace(line, column)


def test_all_problems_of_a_file_are_found() -> None:
    marked = parse("a: 012\nb: 1\nb: 2\nc:\n", "f")
    assert len(marked.problems) == 3
    assert marked.value == {"b": 1}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1", "not readable as YAML"),
        ("a: b: c", "f:1:5"),
        ("\ta: 1", "spaces, not tabs"),
        ("- 1", "key: value"),
        ("a: 1\n---\nb: 2", "f:2:"),
        ("a: \x00", "f"),
        ("a: " + "[" * 200_000 + "]" * 200_000, "too deeply"),
        ("- " * 200_000, "key: value"),
    ],
)
def test_what_is_not_yaml_is_refused_with_its_place(text: str, words: str) -> None:
    with pytest.raises(ExperimentError) as caught:
        parse(text, "f")
    assert words in str(caught.value)


def test_what_watches_sees_the_first_lines_before_anything_else() -> None:
    seen: list[str] = []

    def watch(event: yaml.Event, depth: int) -> None:
        if isinstance(event, yaml.ScalarEvent):
            seen.append(f"{depth} {event.value}")
            if event.value == "stop":
                raise ExperimentError("enough")

    with pytest.raises(ExperimentError, match="enough"):
        parse("a:\n  b: stop\nc: [\n", "f", watch=watch)
    assert seen == ["1 a", "2 b", "2 stop"], "and not the error behind it"
    with pytest.raises(ExperimentError, match="f:2:1: a second document begins here"):
        parse("a: 1\n---\nb: [\n", "f")


def test_an_empty_file_is_no_settings() -> None:
    assert parse("# nothing\n", "f").value == {}


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(ExperimentError, match="no such file"):
        read(tmp_path / "absent.yaml")
    with pytest.raises(ExperimentError, match="directory"):
        read(tmp_path)
    (tmp_path / "latin.yaml").write_bytes(b"name: caf\xe9\n")
    with pytest.raises(ExperimentError, match="UTF-8"):
        read(tmp_path / "latin.yaml")
