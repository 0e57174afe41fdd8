"""What is declared of the experiment's keys, as docs/experiment.md and as a JSON schema for editors."""

from collections.abc import Iterable, Sequence

from railweave.framework.experiment.faults import VERBS
from railweave.framework.experiment.jobs import OWN as JOB_PARAMETERS
from railweave.framework.experiment.schema import (
    DEFAULTS,
    KEYS,
    KINDS,
    OF_EACH_JOB,
    PARAMETERS,
    Choice,
    Key,
    spoken,
)
from railweave.framework.health.options import PARAMETERS as HEALTH_PARAMETERS
from railweave.framework.parameters import Parameter, Unit
from railweave.framework.registry import Registers

_PATTERNS: dict[Unit, str] = {
    "bytes": r"^\d+ *[KMGkmg]?$",
    "rate": r"^(0|[0-9.eE+-]+ *([kmgtKMGT]?[bB]/s|[kmgt]?bit))$",
    "time": r"^(0|[0-9.eE+-]+ *(ns|us|ms|s|min|h))$",
    "ratio": r"^[0-9.eE+-]+ *%?$",
    "factor": r"^[0-9.eE+-]+$",
}
_EXPECTS = {
    "plugin": "a name, or a mapping of name and options",
    "command": "a command, or a list of its words",
    "texts": "a text, or a list of texts",
    "section": "a mapping",
    "reports": "a mapping",
    "ranks": "a selector, or a list of them",
    "jobs": "a list of jobs ([jobs.md](jobs.md))",
}
"""What keys take that are no value of a unit, by their shape."""
_SWEEP = r"^\d+[KMGkmg]?:\d+[KMGkmg]?:(x\d+|\+\d+[KMGkmg]?)$"

_INTRODUCTION = """# The experiment file

<!-- Generated: railweave schema experiment --format markdown > docs/experiment.md -->

`railweave run experiment.yaml` carries out what a file says. Every key is optional, and an empty file is the
main job of `railweave run`. Every key is also an option of the command and a keyword of `railweave.run` in
Python; an option wins over the file. Everything wrong is reported at once, with line and column, before
anything starts.

    # yaml-language-server: $schema=experiment.schema.json
    topology: {name: torus, shape: 4x4, link_rate: 200Gb/s}
    collective: ring-all-reduce
    size: 64K:1M:x2
    iterations: 6
    faults:
      - at=iter:2 degrade link:g0.0->g0.1 to=50%
      - at=iter:4 restore link:g0.0->g0.1
    health: {dwell: 1s}

The first line makes editors complete and check the file, once `railweave schema experiment >
experiment.schema.json` has written the schema of the plugins that are installed.

Sizes are binary (64K, 1M, 2G), or plain bytes; rates are 400Gb/s in bits or 50GB/s in bytes; times 25us,
1.5s, 2min; shares 0.2 or 20%. A rate or time without its unit is refused, 0 aside; in Python a float is one
in bit/s or seconds. A plugin is a name, or a mapping of `name` and its options; `railweave topo list` and
`railweave plugins` list what there is. Times are emulated.
"""
_FAULTS = """
A fault reads `at=TIME|iter:N[+TIME] VERB OBJECT [key=value ...]`: it fires at a time of the run, or before
iteration N, or TIME after its beginning. Iterations, rails and everything else count from 0. Faults of one
instant fire in the order in which they are written, also `at=1s` and `at=iter:1` if iteration 1 begins then.
"""
_OBJECTS = """
Objects: `gpu:1.2` (all its links), `nic:1.2` (its rail cable), `rail:1`, `domain:0`, `spine:0`, `switch:r1`
(links of that node, or its process), `ocs:X:0,0`, `cube:0.0.1`, `link:A->B` (that direction; a carrier is of
both), `controller`. With `way`, out are the packets that leave the object. A killed controller is started
again at once; a switch, with all of its shard, after `back`, or never, and then the run fails.
"""


def default_text(name: str) -> str:
    """The default of a key as a person writes it; empty where there is none."""
    default, otherwise = DEFAULTS[name], KEYS[name].otherwise
    if isinstance(default, Choice):
        names = ", ".join((default.name, *otherwise))
        suited = "the topology's own, else " if name == "router" else ""
        return f"{suited}the first of {names} that serves the fabric" if otherwise else default.name
    if KEYS[name].shape == "size":
        return str(spoken(default))
    if isinstance(default, bool):
        return str(default).lower()
    if isinstance(default, tuple):
        return ", ".join(default)
    return "" if default is None or KEYS[name].shape in ("section", "reports") else str(default)


def markdown() -> str:
    """docs/experiment.md: the keys, the numbers of the health loop, and faults."""
    keys = [
        (
            f"`{name}`",
            _expects(name, key),
            f"`{default}`" if (default := default_text(name)) else "",
            key.help,
        )
        for name, key in KEYS.items()
    ]
    verbs = [
        (
            f"`{verb}`",
            ", ".join("`switch:NAME`" if o == "switch" else f"`{o}`" for o in entry.objects) or entry.takes,
            ", ".join(f"`{p.name}={p.written(p.default)}`" for p in (*entry.parameters, *entry.options)),
            entry.summary,
        )
        for verb, entry in VERBS.items()
    ]
    health = [(f"`{p.name}`", p.expects, f"`{p.written(p.default)}`", p.help) for p in HEALTH_PARAMETERS]
    head = ("key", "value", "default", "meaning")
    return (
        f"{_INTRODUCTION}\n## Keys\n\n{_table(head, keys)}\n## health\n\n{_table(head, health)}\n## faults\n"
        f"{_FAULTS}\n{_table(('verb', 'objects', 'options', 'does'), verbs)}{_OBJECTS}"
    )


def json_schema(registers: Registers) -> dict[str, object]:
    """JSON schema (draft 2020-12) of the experiment file with the plugins that are installed."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "railweave experiment",
        "type": "object",
        "additionalProperties": False,
        "properties": {
            name: {"description": key.help, **_schema_of(name, key, registers)}
            for name, key in (*KEYS.items(), ("fault", KEYS["faults"]), ("job", KEYS["jobs"]))
        },
    }


def _schema_of(name: str, key: Key, registers: Registers) -> dict[str, object]:
    match key.shape:
        case "plugin":
            schemas = [
                _object(plugin.parameters, {"name": {"const": chosen, "description": plugin.summary}})
                | ({} if chosen == KINDS[name] else {"required": ["name"]})
                for chosen, plugin in registers[name].items()
            ]
            return {"anyOf": [{"type": "string"}, *schemas]}
        case "texts" | "command":
            return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
        case "section":
            return _object(HEALTH_PARAMETERS)
        case "reports":
            options = {name: _object(report.parameters) for name, report in registers["report"].items()}
            return {"type": "object", "additionalProperties": False, "properties": options}
        case "ranks":
            plain: list[dict[str, object]] = [{"type": "string"}, {"type": "integer", "minimum": 1}]
            return {"anyOf": [*plain, {"type": "array", "items": {"anyOf": plain}}]}
        case "jobs":
            fields: dict[str, object] = {key: _schema_of(key, KEYS[key], registers) for key in OF_EACH_JOB}
            job = _object(JOB_PARAMETERS, fields) | {"required": ["ranks"]}
            return {"type": "array", "minItems": 1, "items": {"anyOf": [{"type": "string"}, job]}}
    value = parameter_schema(PARAMETERS[name])
    return {"anyOf": [value, {"type": "string", "pattern": _SWEEP}]} if key.shape == "size" else value


def _object(parameters: Iterable[Parameter], added: dict[str, object] | None = None) -> dict[str, object]:
    properties = {p.name: {"description": p.help, **parameter_schema(p)} for p in parameters}
    return {"type": "object", "additionalProperties": False, "properties": {**(added or {}), **properties}}


def parameter_schema(parameter: Parameter) -> dict[str, object]:
    """What `Parameter.parse` takes, as JSON schema."""
    if parameter.choices:
        return {"enum": [*parameter.choices, *(int(c) for c in parameter.choices if c.isdecimal())]}
    if parameter.unit == "bool":
        return {"enum": [True, False, "yes", "no", "on", "off"]}
    if parameter.unit == "text":
        return {"type": "string"}
    limits = {"minimum": parameter.minimum, "maximum": parameter.maximum}
    number: dict[str, object] = {
        "type": "integer" if parameter.unit in ("count", "bytes") else "number",
        **{name: limit for name, limit in limits.items() if limit is not None},
    }
    if parameter.unit in ("rate", "time"):  # others need a unit
        number = {"const": 0}
    either = [number]
    if parameter.unit in _PATTERNS:
        either.append({"type": "string", "pattern": _PATTERNS[parameter.unit]})
    if parameter.word:
        either.append({"const": parameter.word})
    return {"anyOf": either} if len(either) > 1 else number


def _expects(name: str, key: Key) -> str:
    if name in PARAMETERS:
        return PARAMETERS[name].expects + ("; or a sweep" if key.shape == "size" else "")
    return _EXPECTS[key.shape] + (f"; or {key.word}" if key.word else "")


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *([cell.replace("|", "\\|") for cell in row] for row in rows)]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)
