"""Whatever a file holds, it is a fabric or it is refused."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from railweave.framework.errors import InputError
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
