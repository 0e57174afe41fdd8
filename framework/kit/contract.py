"""Whether a router says what it is, and refuses what it does not serve by name."""

from __future__ import annotations

from railweave.framework.errors import RailweaveError, UnsupportedFabricError
from railweave.framework.kit.report import Finding, Outcome
from railweave.framework.kit.samples import Sample, serves
from railweave.framework.kit.subject import Subject
from railweave.framework.model import HealthSnapshot
from railweave.framework.parameters import Parameter


def says_what_it_is(subject: Subject) -> Outcome:
    """Summary, parameters with defaults that they accept themselves, kinds served, damped, configured."""
    router, wrong = subject.registered, list[Finding]()
    summary = getattr(router, "summary", None)
    if not isinstance(summary, str) or not summary or "\n" in summary:
        wrong.append(Finding("", f"summary is {summary!r}: it takes one line of text"))
    kinds = getattr(router, "serves", None)
    if not isinstance(kinds, tuple) or not all(isinstance(kind, str) for kind in kinds):
        wrong.append(
            Finding("", f'serves is {kinds!r}: it takes a tuple of kinds such as ("ring",), or ("*",)')
        )
    if not isinstance(getattr(router, "damped", None), bool):
        wrong.append(
            Finding("", "damped is missing: True if choices follow scores, False if only what is down")
        )
    parameters = getattr(router, "parameters", None)
    if not isinstance(parameters, tuple) or not all(isinstance(p, Parameter) for p in parameters):
        wrong.append(Finding("", f"parameters is {parameters!r}: it takes a tuple of Parameter"))
    else:
        for parameter in parameters:
            try:
                parameter.parse(parameter.default)
            except RailweaveError as error:
                wrong.append(Finding("", f"its own default is refused: {error}"))
    for method in ("configured", "routes"):
        if not callable(getattr(router, method, None)):
            wrong.append(Finding("", f"it has no method {method}"))
    if not wrong:
        try:
            subject.made()
        except RailweaveError as error:
            wrong.append(Finding("", str(error)))
    return Outcome.of("says what it is", wrong, "summary, parameters, serves, damped, configured")


def refuses_others(subject: Subject, samples: list[Sample]) -> Outcome:
    """One fabric of each kind that it does not serve must raise UnsupportedFabricError."""
    others = {s.fabric.kind: s for s in samples if not serves(subject.registered, s.fabric.kind)}
    if not others:
        return Outcome("refuses others", "skipped", "it serves every kind")
    wrong = []
    for sample in others.values():
        try:
            subject.ask(sample.fabric, HealthSnapshot.healthy(sample.fabric))
        except UnsupportedFabricError:
            continue
        except RailweaveError as error:
            why = f"raises {type(error).__name__} instead of UnsupportedFabricError: {error}"
        else:
            why = "gives routes; it must raise UnsupportedFabricError"
        wrong.append(Finding(sample.name, f"serves does not name {sample.fabric.kind}, and it {why}"))
    return Outcome.of("refuses others", wrong, ", ".join(others))
