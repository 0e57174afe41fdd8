"""Edges of a large InfraGraph file that are written alike are what YAML makes of them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from railweave.framework import api
from railweave.framework.errors import ExperimentError
from railweave.framework.experiment import yaml_reader
from railweave.framework.experiment.settings import Key, LayeredSettings
from railweave.framework.fabric_files import like_edges, load, loading, text_of

TEXT = text_of(api.topology("rail-only", domains=4, rails=4), "infragraph")[0]
HEAD, EDGES = TEXT[: TEXT.rindex("\nedges:\n")], TEXT[TEXT.rindex("\nedges:\n") :]


def problems(settings: LayeredSettings, keys: list[Key]) -> str:
    """What is said where something is wrong with each of the keys."""
    for key in keys:
        settings.report(key, str(key))
    with pytest.raises(ExperimentError) as caught:
        settings.check()
    return str(caught.value)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT.rstrip("\n"),
        HEAD + EDGES.replace("\n- ", "\n  - ").replace("\n  ", "\n    ").replace("\n    -", "\n  -"),
        HEAD + EDGES.replace("  link: r", '  link: "r"').replace("  link: d", '  link: "d"'),
    ],
    ids=["exported", "no last newline", "indented", "quoted"],
)
def test_values_and_places_are_those_of_yaml(text: str) -> None:
    alike, read = like_edges.settings_of(text, "f"), yaml_reader.parse(text, "f")
    assert alike is not None and len(read.value["edges"]) == 16
    assert alike.value == read.value
    assert problems(alike, list(read.marks)) == problems(read, list(read.marks))


@pytest.mark.parametrize(
    "text",
    [
        TEXT.replace("instance: rail[3]", "instance: null", 1),
        TEXT.replace("instance: rail[3]", "instance: 3", 1),
        TEXT.replace("instance: rail[3]", "instance: 'rail[3]'", 1),
        TEXT.replace("instance: rail[3]", "instance: rail[3] # the last", 1),
        TEXT.replace("instance: rail[3]", "instance: rail:", 1),
        TEXT + "name: again\n",
        HEAD + "\nedges: []\n",
        HEAD + "\n",
    ],
)
def test_what_is_not_alike_is_left_to_yaml(text: str) -> None:
    assert text != TEXT and like_edges.settings_of(text, "f") is None


def test_json_has_the_values_and_the_lines_of_its_edges() -> None:
    document = yaml_reader.parse(TEXT, "f").value
    for indent in (None, 2, "\t"):
        text = json.dumps(document, indent=indent)
        read, whole = like_edges.settings_of(text, "f"), yaml_reader.parse(text.replace("\t", " "), "f")
        assert read is not None and read.value == whole.value == document
        edges = [key for key in whole.marks if key[:1] == ("edges",) and len(key) == 2]
        assert problems(read, edges) == problems(whole, edges)
    for odd in ('"a": null, "edges": []', '"a": 1, "a": 2, "edges": []', '"edges": 1', '"a": 1'):
        assert like_edges.settings_of(f"{{{odd}}}", "f") is None


def test_mistakes_of_large_files_are_found_in_their_lines(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With limits so low that this file is a large one."""
    monkeypatch.setattr(loading, "LARGE", 100)
    monkeypatch.setattr(like_edges, "MOST_UNLIKE", 100)
    monkeypatch.setattr(loading, "MOST_EVENTS", 100)
    file = tmp_path / "f.yaml"
    at = TEXT.rindex("instance: rail[3]")
    line = TEXT.count("\n", 0, at) + 1
    first_line = TEXT[:at].rindex("- ep1:")
    for wrong, place, why in (
        ("instance: rial[3]", f"{line}:5", "there is no instance 'rial'"),
        ("instance: 3", f"{TEXT.count(chr(10), 0, first_line) + 1}:1", "from here on it is not written as"),
    ):
        file.write_text(TEXT[:at] + wrong + TEXT[at + len("instance: rail[3]") :])
        with pytest.raises(ExperimentError) as caught:
            load(file)
        assert f"{file}:{place}: " in str(caught.value) and why in str(caught.value)
    file.write_text(f"{HEAD}\nedges: [{', '.join(['{}'] * 100)}]\n")
    with pytest.raises(ExperimentError, match="ends with its edges, as JSON or in lines that"):
        load(file)
    file.write_text(TEXT)
    assert load(file).fabric.n_links == 64
    monkeypatch.setattr(loading, "LARGEST_INFRAGRAPH", 100)
    with pytest.raises(ExperimentError, match="an InfraGraph file of 0 MiB, and 0 MiB are the most"):
        load(file)


def test_graphml_has_its_own_limit(tmp_path: Path) -> None:
    file = tmp_path / "f"
    file.write_text("<graphml>" + "<edge/>" * 200_001)
    with pytest.raises(ExperimentError, match="GraphML with 200001 edges, and 200000 are the most"):
        load(file)
