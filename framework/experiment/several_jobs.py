"""The plan of an experiment with several jobs, made of a plan for each job by itself."""

import sys
from dataclasses import replace
from typing import TYPE_CHECKING

from railweave.framework.errors import ExperimentError
from railweave.framework.experiment.jobs import OWN, Job, check_together, own_key, parted
from railweave.framework.experiment.run_plan import Plan
from railweave.framework.experiment.schema import OF_EACH_JOB, Experiment

if TYPE_CHECKING:
    from railweave.framework.experiment.draft import Draft


def plan_of_jobs(draft: "Draft", request: Experiment) -> Plan:
    """The plan. What is wrong with a job is reported in the settings of the whole, at the job's place there.

    Faults, captures and reports are those of the whole; `at=iter:N` counts iterations of the first job.
    """
    settings = draft.settings
    for name in ("ranks", *(parameter.name for parameter in OWN)):
        if name in settings.value:
            settings.report((name,), "each of several jobs has its own. Put it there.")
    _, fabric = draft.topology()
    plans: list[Plan] = []
    for job, part, own_keys in parted(settings, request.jobs):
        try:
            plan = replace(type(draft)(part, draft.registers, draft).plan(), job=job)
            if len(plan.schedules) > 1:
                part.report(("size",), "is a sweep, and each of several jobs has one size. Give one.")
            plans.append(plan)
        except ExperimentError:
            pass  # its settings have everything
        for problem in part.problems:
            settings.report(own_key(job.number, own_keys, problem.key), problem.message, part.cause)
        settings.notes += [note for note in part.notes if note not in settings.notes]
    if fabric is not None:
        check_together(settings, [(plan.job, plan.ranks) for plan in plans], fabric)
    iterations = plans[0].iterations if plans else None
    engine = draft.engine(fabric)
    faults = draft.faults(fabric, sys.maxsize if iterations is None else iterations, engine)
    pcap, reports = draft.captured(fabric), draft.reports()
    if engine is not None:
        draft.check_engine(engine, faults)
    transport = draft.plugin("transport", fabric)
    settings.check()
    first = plans[0]
    shared = {
        "jobs": tuple(_document(plan) for plan in plans), "alone": request.alone, "pcap": request.pcap,
        "faults": tuple(fault.text for fault in faults), "trace": request.trace,
        "reports": request.reports, "program": (), "workload": None, "ranks": "all",
    }  # fmt: skip
    return replace(
        first,
        experiment=first.experiment.model_copy(update=shared),
        transport=transport,
        named_jobs=tuple(replace(plan, faults=faults) for plan in plans),
        job=Job(),
        faults=faults,
        pcap_links=pcap,
        reports=reports,
        notes=tuple(settings.notes),
    )


def _document(plan: Plan) -> dict[str, object]:
    """What a job says for itself, as plain data."""
    document = {**plan.document(), "ranks": plan.experiment.ranks}
    return {**plan.job.document(), **{name: document[name] for name in OF_EACH_JOB if name in document}}
