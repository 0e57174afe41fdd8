"""Records what items of papers came to on the lab: `python .ci/lab_results.py FILE...`, of files that
`railweave paper PAPER --lab --json` wrote, with the day of each. docs/papers.md shows them from then on.
"""

import json
import sys
from datetime import UTC, datetime
from pathlib import Path

import yaml

from railweave.framework.papers.items.registry import PAPERS

RECORD = Path(__file__).resolve().parents[1] / "framework" / "papers" / "items" / "lab.yaml"
HEAD = "# What items came to on a lab: .ci/lab_results.py writes it, a test holds it to the items.\n"


def entries(file: Path) -> dict[str, dict[str, object]]:
    """The items of a file that the lab carried out or refused."""
    day = datetime.fromtimestamp(file.stat().st_mtime, UTC).date().isoformat()
    paper_of = {item.id: paper.key for paper in PAPERS.values() for item in paper.items}
    found = {}
    for item in json.loads(file.read_text())["items"]:
        if item["method"] == "lab":
            command = f"railweave paper {paper_of[item['id']]} {item['id']} --lab"
            outcome = (
                {"ours": item["ours"]} if item["ours"] else {"refused": item["why"].removeprefix("failed: ")}
            )
            found[item["id"]] = {"date": day, "command": command, **outcome}
    return found


def main(files: list[Path]) -> None:
    """Take the items of `files` into the record; the others stay."""
    record = yaml.safe_load(RECORD.read_text()) if RECORD.exists() else {}
    for file in files:
        record |= entries(file)
    RECORD.write_text(HEAD + yaml.safe_dump(dict(sorted(record.items())), sort_keys=False, width=110))


if __name__ == "__main__":
    main([Path(name) for name in sys.argv[1:]])
