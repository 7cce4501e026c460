"""A report comes back from its file exactly."""

from __future__ import annotations

import dataclasses
import json
import math
import typing

import numpy as np
import pytest
from evidence_factory import report
from hypothesis import given, settings
from hypothesis import strategies as st

from iqaction.errors import EvidenceError
from iqaction.evidence import canon
from iqaction.evidence.report_json import differing, from_bytes, from_json, to_bytes, to_json
from iqaction.report import (
    Change,
    ChangedLine,
    Check,
    Coverage,
    Difference,
    Divergence,
    Engine,
    Estimate,
    Mover,
    Past,
    Report,
    Run,
    Series,
    StageResult,
    Table,
    UnitFault,
)
from iqaction.verdict import Verdict

NUMBER = st.floats(allow_nan=False, allow_infinity=False)
MAYBE = st.none() | NUMBER
TEXT = st.text(max_size=5) | st.just("\ud800 \x1b[31m")
COUNT = st.integers(0, 10**6)
VERDICT = st.sampled_from(Verdict)


def many(inner: st.SearchStrategy[object]) -> st.SearchStrategy[tuple[object, ...]]:
    return st.lists(inner, max_size=2).map(tuple)


ESTIMATE = st.builds(
    Estimate, TEXT, MAYBE, st.none() | st.tuples(MAYBE, MAYBE), NUMBER, TEXT, COUNT, TEXT,
    st.none() | st.integers(),
)  # fmt: skip
CHECK = st.builds(
    Check, TEXT, TEXT, VERDICT, TEXT, st.none() | ESTIMATE, MAYBE, MAYBE, MAYBE, TEXT,
    st.booleans(), st.booleans(), TEXT,
)  # fmt: skip
DIVERGENCE = st.builds(
    Divergence, TEXT, TEXT, st.integers(-1, 10**6),
    st.sampled_from(["tie", "shift", "real", "unknown"]), MAYBE, *[TEXT] * 5,
)  # fmt: skip
TEXTS = many(TEXT)
STAGE = st.builds(
    StageResult, st.sampled_from(["score", "trajectory"]), VERDICT, many(CHECK),
    st.builds(Coverage, COUNT, COUNT, TEXTS, TEXTS, TEXTS), st.booleans(), many(DIVERGENCE),
    many(st.builds(UnitFault, TEXT, TEXT, TEXT, TEXT)), TEXTS, TEXTS, TEXTS,
    many(st.builds(Table, TEXT, TEXTS, many(many(st.none() | TEXT | NUMBER)))),
    many(st.builds(Series, TEXT, TEXT, TEXT, many(NUMBER), many(MAYBE), TEXTS, MAYBE)),
    st.integers(-1, 3), st.booleans(), TEXT,
    many(st.builds(Mover, TEXT, TEXT, TEXT, MAYBE, MAYBE, st.integers(-1, 9), *[TEXT] * 3)),
)  # fmt: skip
ENGINE = st.builds(Engine, *[TEXT] * 5, st.dictionaries(TEXT, TEXT, max_size=2))
DETAILS = st.dictionaries(TEXT, TEXT, max_size=2)
RUN = st.builds(Run, *[TEXT] * 5, COUNT, *[TEXT] * 4)
HASH = st.sampled_from(["", "a" * 64])
REPORT = st.builds(
    Report, VERDICT, many(STAGE), TEXT, TEXT, VERDICT, many(ENGINE),
    many(st.builds(Change, *[TEXT] * 3)), TEXTS,
    many(st.builds(Difference, st.sampled_from(["plan", "baseline"]), *[TEXT] * 3)),
    TEXTS, TEXTS, HASH, HASH, HASH, RUN, RUN, many(st.builds(ChangedLine, TEXT, COUNT, TEXT)),
    DETAILS, TEXT, TEXT, TEXTS,
    many(st.builds(Past, TEXT, TEXT, VERDICT, TEXT, st.dictionaries(TEXT, NUMBER, max_size=2))),
)  # fmt: skip


@settings(max_examples=60)
@given(REPORT)
def test_to_json__round_trip_is_exact(before):
    """Every field of every part comes back with its type, and gives the same bytes again."""
    data = to_bytes(before)
    after = from_bytes(data)

    assert after == before
    assert to_bytes(after) == data


def parts(kind: object) -> set[type]:
    """The dataclasses that a report is made of."""
    found = {kind} if isinstance(kind, type) and dataclasses.is_dataclass(kind) else set()
    inner = typing.get_type_hints(kind).values() if found else typing.get_args(kind)
    return found.union(*(parts(k) for k in inner)) if inner else found


def test_to_json__every_field_is_stored():
    """A field that a part of the report gains is stored without anything to be added here."""
    body = to_json(report())
    del body["$schema"]

    assert set(body) == {f.name for f in dataclasses.fields(Report)} - {"evidence_root"}
    assert parts(Report) == {
        *(Report, StageResult, Check, Estimate, Divergence, UnitFault, Coverage, Table, Series),
        *(Change, ChangedLine, Difference, Engine, Mover, Past, Run),
    }


def test_to_json__verdict_is_a_key_at_the_top():
    """A script reads the verdict with one look."""
    assert json.loads(to_bytes(report(Verdict.NOT_RUN)))["verdict"] == "NOT RUN"


def test_to_json__the_root_is_left_out():
    """The root covers the file, so it cannot be in it."""
    assert to_bytes(report(evidence_root="a" * 64)) == to_bytes(report())


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, np.float64("nan")])
def test_to_json__no_number_is_null(value):
    """Not computed is null, never NaN."""
    made = report()
    check = dataclasses.replace(made.stages[0].checks[0], baseline=value)
    stage = dataclasses.replace(made.stages[0], checks=(check,))

    body = to_json(dataclasses.replace(made, stages=(stage,)))

    assert body["stages"][0]["checks"][0]["baseline"] is None


def test_to_json__a_number_that_must_be_one_is_not_left_out():
    """A plot's place on the axis has no meaning as null: that is an error of ours, and told."""
    stage = dataclasses.replace(report().stages[0], series=(Series("", "", "", (math.nan,), ()),))

    with pytest.raises(EvidenceError, match=r"\$\.stages\[0\]\.series\[0\]\.x\[0\]"):
        to_json(dataclasses.replace(report(), stages=(stage,)))


def test_to_json__numpy_numbers_and_whole_floats_are_numbers():
    """What computing leaves in a report is stored as what it is, one way only."""
    made = report()
    check = dataclasses.replace(
        made.stages[0].checks[0],
        baseline=np.float32(0.5),
        candidate=3,
        judged=np.bool_(True),
        estimate=Estimate("m", np.float64(1.5), None, 0.95, "t", np.int64(7)),
    )
    whole = dataclasses.replace(
        made, stages=(dataclasses.replace(made.stages[0], checks=(check,)),)
    )
    data = to_bytes(whole)

    assert b'"baseline":0.5,"candidate":3.0,' in data
    assert to_bytes(from_bytes(data)) == data


@settings(max_examples=60)
@given(REPORT)
def test_differing__nothing_from_itself(before):
    """A report that was stored and read differs in nothing."""
    assert differing(before, from_bytes(to_bytes(before))) == ()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"verdict": Verdict.FAIL}, ("verdict",)),
        ({"headline": "this is so."}, ("headline",)),
        ({"stages": ()}, ("stages",)),
        ({"problems": ("x",), "caveats": ("y",)}, ("caveats", "problems")),
        ({"evidence_root": "a" * 64}, ()),
    ],
)
def test_differing__fields_are_named(change, named):
    """Verdicts, texts and what is there must be equal; the root is not stored."""
    assert sorted(differing(report(), dataclasses.replace(report(), **change))) == sorted(named)


@pytest.mark.parametrize(
    ("a", "b", "same"),
    [
        (0.3, 0.1 + 0.2, True),
        (0.0, 1e-17, True),
        (1e-3, -1e-3, False),
        (0.3, 0.3 + 1e-8, False),
        (0.3, None, False),
        (0.0, None, False),
    ],
)
def test_differing__numbers(a, b, same):
    """Last bits are no difference, also of a zero; anything more is one."""
    one, two = (
        dataclasses.replace(
            report(),
            stages=(
                StageResult(
                    "x", Verdict.PASS, (), Coverage(1, 1), tables=(Table("t", ("c",), ((v,),)),)
                ),
            ),
        )
        for v in (a, b)
    )

    assert (differing(one, two) == ()) is same


def test_from_json__unknown_fields_are_ignored():
    """A newer writer's field does not stop an older reader, and a root in the file is no root."""
    body = to_json(report())
    body["later"] = body["stages"][0]["later"] = 1
    body["evidence_root"] = "a" * 64

    assert from_json(body) == report()


@pytest.mark.parametrize(
    "data", [b"", b"[]", b"{}", b'{"verdict": NaN}', canon.dump({"verdict": "PASS"})]
)
def test_from_bytes__refuses_what_is_no_report(data):
    """One error, no traceback."""
    with pytest.raises(EvidenceError, match=r"report\.json"):
        from_bytes(data)


def test_from_json__older_evidence_names_no_movers():
    """A report that was stored before prompts were named by how much they changed still loads."""
    stage = StageResult("score", Verdict.PASS, (), Coverage(1, 1))
    body = to_json(Report(Verdict.PASS, (stage,), "fine"))
    for one in body["stages"]:
        del one["movers"]

    assert from_json(body).stages[0].movers == ()


def test_from_json__a_number_that_no_float_holds():
    """A report with a whole number of 400 digits is no report, and no traceback."""
    body = to_json(report())
    body["stages"][0]["checks"][0]["limit"] = 10**400  # type: ignore[index, call-overload]

    with pytest.raises(EvidenceError, match="no float holds"):
        from_json(body)
