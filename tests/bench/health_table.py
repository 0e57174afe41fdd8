"""The table of docs/health-figures.md from the rows of `bench health` in docs/health-figures.jsonl:

python -m railweave.bench.health_table health.jsonl    # takes the rows of a --resume file into both
"""

import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from pydantic import TypeAdapter

from railweave.bench.health_rows import Row
from railweave.framework.parameters.units import parse_bytes, size

DOCS = Path(__file__).resolve().parents[2] / "docs"
DATA, PAGE = DOCS / "health-figures.jsonl", DOCS / "health-figures.md"
HEAD = ("fabric", "size", "router", "fault", "published", "allowed", "score (truth)", "lowest healthy",
        "/ alone", "/ oracle", "used again")  # fmt: skip


def rows_of(path: Path) -> list[Row]:
    """The rows of a data file, or of a file of `--resume`."""
    documents = [json.loads(line) for line in path.read_text().splitlines()]
    rows = [document.get("row", document) for document in documents if "study" not in document]
    names = Row.__dataclass_fields__
    return [TypeAdapter(Row).validate_python({k: v for k, v in d.items() if k in names}) for d in rows]


def table(rows: Sequence[Row]) -> str:
    """A line for each row, as Markdown."""
    lines = [HEAD, ("---",) * len(HEAD), *map(_cells, rows)]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def _cells(row: Row) -> tuple[str, ...]:
    fault = f"`{row.fault}`" + " undone" * bool(row.restored) if row.fault else "" if row.hold else "none"
    load = row.hold + (f" ({row.fullness:.0%} full)".replace("%", " %") if row.fullness is not None else "")
    score = "" if row.score is None or row.truth is None else f"{row.score:.2f} ({row.truth:.2f})"
    ratios = (None if pair is None else pair[0] for pair in (row.to_alone, row.to_oracle))
    return (
        row.fabric,
        _spoken(row.size),
        f"`{row.router}`" if row.router else "",
        ", ".join(filter(None, (fault, load))),
        *map(_figure, (row.published_s, row.allowance_s)),
        score,
        *map(_figure, (row.healthy_min, *ratios, row.back_s)),
    )


def _spoken(text: str) -> str:
    number = size(parse_bytes(text)) if text else ""
    return f"{number[:-1]} {number[-1]}iB" if number else ""


def _figure(value: float | None) -> str:
    return "" if value is None else f"{max(value, 0.0):.2f}"


def page(rows: Sequence[Row]) -> str:
    """The page with the table of these rows in the place of its own."""
    text = PAGE.read_text()
    begin = text.index(f"| {' | '.join(HEAD)} |")
    end = text.index("\n\n", begin) + 1
    return text[:begin] + table(rows) + text[end:]


def main() -> None:
    rows = rows_of(Path(sys.argv[1]))
    DATA.write_text("".join(json.dumps(asdict(row)) + "\n" for row in rows))
    PAGE.write_text(page(rows))


if __name__ == "__main__":
    main()
