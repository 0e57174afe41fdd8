"""The rows of a study as a Parquet file, which pandas, polars and DuckDB read (extra `data`)."""

import json
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from railweave.framework.errors import InputError, NotInstalledError
from railweave.framework.results.directory import write_whole
from railweave.framework.studies.figures import MEANINGS
from railweave.framework.studies.ledger import SCHEMA

_KEY = b"railweave"
"""Of the file's metadata: whose rows these are."""
_PLAIN = ("point", "version", "ok", "seed", "repeat", "cause", "error", "engine", "router", "gpus",
          "rate_scale", "verdict", "bottleneck", "iterations_us", "faults_at", *MEANINGS)  # fmt: skip


def write_parquet(path: Path, study: str, rows: Sequence[Mapping[str, Any]]) -> None:
    """A column for each setting (`set.depth`), each axis that was drawn (`drawn.rail`) and each figure; `row`
    has all of it as JSON.

    Raises NotInstalledError without the extra, RunFailedError where the file cannot be written, and what was
    there before stays.
    """
    arrow, parquet = _arrow()
    columns: dict[str, list[Any]] = {name: [row.get(name) for row in rows] for name in _PLAIN}
    for prefix, part in (("set", "settings"), ("drawn", "drawn")):
        for name in dict.fromkeys(name for row in rows for name in row.get(part, {})):
            columns[f"{prefix}.{name}"] = _alike([row.get(part, {}).get(name) for row in rows])
    columns["row"] = [json.dumps(row, separators=(",", ":")) for row in rows]
    filled = {name: values for name, values in columns.items() if any(value is not None for value in values)}
    table = arrow.table(filled).replace_schema_metadata(
        {_KEY: json.dumps({"schema": SCHEMA, "study": study}).encode()}
    )
    buffer = BytesIO()
    parquet.write_table(table, buffer)
    write_whole(path, buffer.getvalue())


def _alike(values: Sequence[object]) -> list[object]:
    """Numbers as they are; of several kinds, or of lists, all as text."""
    kinds = {type(value) for value in values if value is not None}
    if any(kinds <= alike for alike in ({int, float}, {bool}, {str})):
        return list(values)
    return [None if value is None else str(value) for value in values]


def read_parquet(path: Path) -> tuple[str, list[dict[str, Any]]]:
    """Whose rows they are, and the rows. Raises InputError for a file that no study wrote."""
    arrow, parquet = _arrow()
    try:
        table = parquet.read_table(path, columns=["row"])
        metadata = json.loads((table.schema.metadata or {}).get(_KEY, b"null"))
        texts = table.column("row").to_pylist()
    except (OSError, ValueError, KeyError, arrow.ArrowException) as error:
        raise InputError(
            f"{path} is no Parquet file of a study: {' '.join(str(error).split()).rstrip('.')}. Write "
            "one by `railweave report --parquet`."
        ) from None
    if not isinstance(metadata, dict) or metadata.get("schema") != SCHEMA:
        raise InputError(f"{path} is no Parquet file of a study. Write one by `railweave report --parquet`.")
    return str(metadata.get("study")), [json.loads(text) for text in texts]


def _arrow() -> Any:
    try:
        import pyarrow
        from pyarrow import parquet
    except ImportError:
        raise NotInstalledError(
            "Parquet files need pyarrow, which is not installed. `pip install 'railweave[data]'` brings it."
        ) from None
    return pyarrow, parquet
