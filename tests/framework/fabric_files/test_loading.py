"""Whatever a file holds, it is a fabric or it is refused."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import ExperimentError, InputError
from railweave.framework.fabric_files import load, text_of
from railweave.framework.model import Fabric

EXAMPLES = Path(__file__).parents[3] / "examples"
FABRIC = load(EXAMPLES / "unequal-domains.yaml").fabric
TEXTS = [text_of(FABRIC, form)[0] for form in ("railweave", "graphml", "infragraph")]
WORDS = ("null", "-1", "1e999", "99999999", "true", "gpu", "  - ", "\0", "²")
PIECES = st.one_of(st.sampled_from([*"\n\t :-[]{}<>/&*x019.", *WORDS]), st.text(max_size=3))


@pytest.mark.parametrize("text", TEXTS, ids=["railweave", "graphml", "infragraph"])
def test_a_byte_order_mark_stands_before_every_kind_of_file(text: str, tmp_path: Path) -> None:
    """Editors on Windows write one."""
    plain, marked = tmp_path / "plain", tmp_path / "marked"
    plain.write_text(text, encoding="utf-8")
    marked.write_text(text, encoding="utf-8-sig")
    assert marked.read_bytes()[:3] == codecs.BOM_UTF8
    assert load(marked).fabric == load(plain).fabric


@settings(max_examples=300)
@given(text=st.sampled_from(TEXTS), at=st.floats(0, 1), length=st.integers(0, 12), piece=PIECES)
def test_a_file_with_a_piece_replaced(
    text: str, at: float, length: int, piece: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    start = int(at * len(text))
    path = tmp_path_factory.mktemp("any") / "f"
    path.write_text(text[:start] + piece + text[start + length :], encoding="utf-8", errors="surrogatepass")
    try:
        assert isinstance(load(path).fabric, Fabric)
    except InputError as error:
        first, *others = str(error).splitlines()
        wrong = others if first.endswith("errors:") else [first]
        assert all(line.startswith(str(path)) for line in wrong), error


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "name: lab\ntopology:\n  nodes:\n    s: {kind: linux}\n",
            ":2:1: begins with 'name' and has 'topology' at the top, as a containerlab topology has: such a",
        ),
        (
            "version: '3'\nservices:\n  a: {image: b}\n",
            ":1:1: begins with 'version' and has 'services' at the top",
        ),
        (
            "name: x\nnodes: {}\nlinks: []\n",
            "If this is a fabric file of railweave, begin it with `fabric: 1`",
        ),
        (
            "name: x\ncolour: red\n",
            ":2:1: begins with 'name': such a file cannot be read. A fabric file begins",
        ),
        ("infrastructure:\n  devices: []\n", "'infrastructure' at the top. This is InfraGraph of before 1.0"),
        (
            "devices: []\nlinks: []\nconnections: []\n",
            "'connections' at the top. This is InfraGraph of before 1.0",
        ),
        (
            "name: x\ndevices:\n- name: a\n  components:\n  - {name: npu, count: 2, choice: npu}\n",
            "This is InfraGraph of before 1.0, and this release reads 1.0 to 3.1: write it anew",
        ),
    ],
)
def test_a_file_of_another_kind_is_told_what_it_is(tmp_path: Path, text: str, says: str) -> None:
    """The first versions of InfraGraph had npu, connections, and infrastructure or device at the top (its
    repository, 0.4 and 0.5); containerlab's topologies begin with name and topology (its documentation)."""
    path = tmp_path / "file.yaml"
    path.write_text(text)
    with pytest.raises(ExperimentError) as caught:
        load(path)
    assert says in str(caught.value)
