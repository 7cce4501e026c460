"""Records are statements that can be signed, and broken ones are found."""

from __future__ import annotations

import json

import pytest

from iqaction.errors import EvidenceError
from iqaction.evidence.canon import identify
from iqaction.evidence.record import (
    PREDICATES,
    STATEMENT,
    Artifact,
    Kind,
    Link,
    Metric,
    Record,
    Workload,
    check,
    dump,
)

SHA = "a" * 64
OTHER = "b" * 64
PLAN = Artifact("plan", "plan.json", SHA)
WORK = Workload("default", SHA, OTHER, 3)


def record(**more: object) -> Record:
    return Record(Kind.PLAN, False, (PLAN,), WORK, **more)


def test_dump__is_an_in_toto_statement():
    """``actions/attest`` can sign it as it is."""
    body = json.loads(dump(record()))

    assert body["_type"] == STATEMENT
    assert body["subject"] == [{"name": "plan.json", "digest": {"sha256": SHA}}]
    assert body["predicateType"] == f"{PREDICATES}plan/v1"


def test_dump__says_what_from_what_and_of_whom():
    """All that a record must say is in its predicate."""
    metric = Metric("kl", 0.1, "nats", "mean over prompts", 64, (0.0, 0.2), "candidate - baseline")
    body = json.loads(
        dump(
            record(
                artifacts=(PLAN,),
                links=(Link("plan", SHA),),
                metrics=(metric,),
                missing=("p-2: failed",),
                limitations=("prefill only",),
                model="m",
            )
        )
    )["predicate"]

    assert (body["basis"], body["missing"], body["limitations"]) == (
        "observed",
        ["p-2: failed"],
        ["prefill only"],
    )
    assert body["metrics"] == [
        {
            "name": "kl",
            "value": 0.1,
            "unit": "nats",
            "statistic": "mean over prompts",
            "n": 64,
            "ci95": [0.0, 0.2],
            "subject": "candidate - baseline",
        }
    ]
    assert body["artifacts"] == [{"role": "plan", "name": "plan.json", "sha256": SHA}]
    assert body["identity"]["model"] == "m"
    assert body["identity"]["workload"]["prompts_sha256"] == OTHER


def test_dump__same_record_same_bytes():
    """The id depends on what is said alone."""
    assert dump(record()) == dump(record())
    assert dump(record()) != dump(record(model="n"))


def test_dump__refuses_a_record_about_nothing():
    """A statement has a subject."""
    with pytest.raises(EvidenceError, match=r"\$\.subject"):
        dump(Record(Kind.PLAN, False, (), WORK))


def stored(*records: Record) -> dict[str, bytes]:
    return {identify(d): d for d in map(dump, records)}


FILES = {"plan.json": SHA}


def test_check__nothing_to_say_of_sound_records():
    """Links that lead somewhere and artifacts that are there."""
    plan = stored(record())
    linked = stored(record(links=(Link("plan", next(iter(plan))),), artifacts=(PLAN,)))

    assert check({**plan, **linked}, FILES) == ()


@pytest.mark.parametrize(
    ("records", "files", "said"),
    [
        ({SHA: dump(record())}, FILES, "do not hash to its name"),
        ({identify(b"{}"): b"{}"}, FILES, "required property"),
        ({identify(b"["): b"["}, FILES, "not JSON"),
        (stored(record(links=(Link("plan", OTHER),))), FILES, f"the record {OTHER} (plan)"),
        (stored(record()), {}, "plan.json is not the file that it speaks of"),
        (stored(record()), {"plan.json": OTHER}, "plan.json is not the file"),
        (
            stored(record(artifacts=(Artifact("x", "y.json", SHA),))),
            FILES,
            "y.json is not the file",
        ),
    ],
)
def test_check__names_what_is_broken(records, files, said):
    """Altered bytes, broken schemas, loose links, other files."""
    problems = check(records, files)

    assert len(problems) == 1
    assert said in problems[0]
