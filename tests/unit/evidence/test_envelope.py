"""Every field of every answer survives storage."""

from __future__ import annotations

import dataclasses
import json

import pytest
from evidence_factory import ENGINE, answers, generation, observation, rows
from hypothesis import given
from hypothesis import strategies as st

from iqaction.calls import (
    Answer,
    Arm,
    Capability,
    Drawn,
    EngineInfo,
    Failure,
    FailureKind,
    Generation,
    Observation,
    Scored,
    Tag,
    TokenIds,
)
from iqaction.errors import EvidenceError
from iqaction.evidence import canon
from iqaction.evidence.envelope import (
    concurrency_from_json,
    concurrency_to_json,
    engine_from_json,
    engine_to_json,
    observation_from_json,
    observation_to_json,
)
from iqaction.evidence.rows_codec import encode_rows
from iqaction.rows import Rows

AT = "2026-01-02T03:04:05.678Z"
COUNT = st.none() | st.integers(0, 10**6)
TEXT = st.text(max_size=8) | st.just("\ud800 lone \x1b[31m\u202e")
TEXTS = st.lists(TEXT, max_size=3).map(tuple)
IDS = st.lists(st.integers(0, 2**40), max_size=5).map(tuple)
ROWS = st.builds(rows, st.integers(0, 5), st.integers(0, 3), seed=st.integers(0, 9))
ANSWERS = st.one_of(
    st.builds(
        Generation,
        text=TEXT,
        finish_reason=TEXT,
        rows=st.none() | ROWS,
        rows_complete=st.booleans(),
        reasoning=TEXT,
        prompt_ids=st.none() | IDS,
        prompt_tokens=COUNT,
        completion_tokens=COUNT,
        top_logprobs=st.integers(0, 100),
        eos_id=COUNT,
        model=TEXT,
        fingerprint=TEXT,
        flags=TEXTS,
    ),
    st.builds(Scored, ROWS, TEXT, TEXTS),
    ROWS.flatmap(
        lambda found: st.builds(
            Drawn,
            rows=st.just(found),
            lengths=st.just((len(found), 0)),
            finish_reasons=st.tuples(TEXT, TEXT),
            completion_tokens=COUNT,
            top_logprobs=st.integers(0, 100),
            eos_id=COUNT,
            flags=TEXTS,
        )
    ),
    st.builds(TokenIds, IDS),
    st.builds(Failure, st.sampled_from(FailureKind), TEXT, st.none() | st.integers(-1, 599)),
)
NAME = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
TAGS = st.builds(Tag, st.sampled_from(Arm), NAME, NAME, st.integers(0, 9), st.integers(0, 2))
OBSERVATIONS = st.builds(
    Observation,
    TAGS,
    st.from_regex(r"[0-9a-f]{64}", fullmatch=True),
    ANSWERS,
    st.integers(0, 9),
    st.floats(0, 1e6),
)
ENGINES = st.builds(
    EngineInfo,
    dialect=TEXT,
    version=TEXT,
    model=TEXT,
    models=TEXTS,
    capabilities=st.frozensets(st.sampled_from(Capability)),
    fingerprint=TEXT,
    slots=COUNT,
    max_model_len=COUNT,
    eos_id=COUNT,
    base_url=st.sampled_from(["", "http://h:1/v1", "https://[::1]:8000", "http://h/@x"]),
    details=st.dictionaries(TEXT, TEXT, max_size=3),
    limitations=TEXTS,
    filters=TEXTS,
    not_restarted=st.booleans(),
    tokenizer_sha256=st.sampled_from(["", "0" * 64]),
    template_sha256=st.sampled_from(["", "f" * 64]),
)


def comparable(answer: Answer) -> object:
    """The answer with its rows as values that compare."""
    found = getattr(answer, "rows", None)
    if isinstance(found, Rows):
        return dataclasses.replace(answer, rows=encode_rows(found))
    return answer


def stored(body: object) -> dict[str, object]:
    """As read back from the disk."""
    return json.loads(canon.dump(body))


@given(OBSERVATIONS)
def test_observation_to_json__round_trip_is_exact(before):
    """Stage, tag, call, attempts, time taken and every kind of answer come back."""
    stage, after = observation_from_json(stored(observation_to_json("score", before, AT)))

    assert stage == "score"
    assert comparable(after.answer) == comparable(before.answer)
    assert dataclasses.replace(after, answer=TokenIds(())) == dataclasses.replace(
        before, answer=TokenIds(())
    )


@given(ENGINES, st.sampled_from(Arm), st.integers(0, 9))
def test_engine_to_json__round_trip_is_exact(info, arm, launch):
    """Arm, launch and every field of an engine come back."""
    assert engine_from_json(stored(engine_to_json(arm, launch, info, AT))) == (arm, launch, info)


def test_engine_to_json__every_field_is_stored():
    """A field that the dataclass gains is not lost silently."""
    info = dataclasses.replace(ENGINE, not_restarted=True)
    body = engine_to_json(Arm.CANDIDATE, 0, info, AT)["info"]

    assert set(body) == {f.name for f in dataclasses.fields(EngineInfo)}


@pytest.mark.parametrize("kind", [Generation, Scored, TokenIds])
def test_observation_to_json__every_field_is_stored(kind):
    """The same for answers."""
    made = {Generation: generation(), Scored: Scored(rows(), "x"), TokenIds: TokenIds((1,))}
    body = observation_to_json("score", observation("p", made[kind]), AT)["answer"]

    assert set(body) - {"kind"} == {f.name for f in dataclasses.fields(kind)}


def test_concurrency_to_json__round_trip_is_exact():
    """Arm, launch, number and source come back."""
    body = stored(concurrency_to_json(Arm.REPEAT, 2, 8, "/props total_slots", AT))

    assert concurrency_from_json(body) == (Arm.REPEAT, 2, 8, "/props total_slots")


@pytest.mark.parametrize(
    "url", ["http://user:secret@h/v1", "http://h/v1?key=secret", "http://h/#secret"]
)
def test_engine_to_json__an_address_with_a_secret_is_refused(url):
    """Userinfo, query and fragment of an address are never recorded."""
    with pytest.raises(EvidenceError) as caught:
        engine_to_json(Arm.CANDIDATE, 0, dataclasses.replace(ENGINE, base_url=url), AT)

    assert "$.info.base_url" in str(caught.value)


def test_observation_from_json__unknown_fields_are_ignored():
    """What a newer writer adds does not stop an older reader."""
    body = stored(observation_to_json("score", observation("p", generation()), AT))
    body["more"] = body["answer"]["more"] = body["answer"]["rows"]["more"] = {"x": 1}

    assert observation_from_json(body)[1].tag == Tag(Arm.CANDIDATE, "trajectory", "p")


def test_observation_from_json__the_time_is_not_read():
    """Two observations that differ in their time alone are equal."""
    one, other = (
        observation_from_json(observation_to_json("score", observation("p", TokenIds((1,))), at))
        for at in (AT, "2031-01-01T00:00:00Z")
    )

    assert one == other


@pytest.mark.parametrize("ids", [[-1], [1.5], [True], ["1"], [2**62], [None]])
def test_observation_from_json__token_ids_are_whole_numbers(ids):
    """A list of ids holds nothing but ids."""
    body = stored(observation_to_json("score", observation("p", TokenIds((1,))), AT))
    body["answer"]["ids"] = ids

    with pytest.raises(EvidenceError):
        observation_from_json(body)


def test_observation_to_json__answers_of_the_factory_cover_every_kind():
    """The folders that other tests make hold every kind of answer."""
    assert {type(o.answer) for _, o in answers()} == {Generation, Scored, TokenIds, Failure}


@pytest.mark.parametrize(
    ("body", "place", "read"),
    [
        (observation_to_json("score", observation("p", TokenIds(())), AT), "tag.launch", 0),
        (observation_to_json("score", observation("p", TokenIds(())), AT), "attempts", 0),
        (engine_to_json(Arm.REPEAT, 1, ENGINE, AT), "launch", 1),
        (concurrency_to_json(Arm.REPEAT, 1, 8, "plan", AT), "value", 2),
    ],
)
def test_from_json__a_whole_float_is_no_count(body, place, read):
    """JSON Schema calls 1.0 an integer; no writer of ours writes one, and none is read."""
    readers = (observation_from_json, engine_from_json, concurrency_from_json)
    forged = stored(body)
    *outer, last = place.split(".")
    at = forged[outer[0]] if outer else forged
    at[last] = float(at[last])

    with pytest.raises(EvidenceError):
        readers[read](forged)


@pytest.mark.parametrize("reader", [observation_from_json, engine_from_json, concurrency_from_json])
def test_from_json__another_kind_is_refused(reader):
    """A sound line of another kind is not what was asked for."""
    bodies = {
        observation_from_json: engine_to_json(Arm.REPEAT, 1, ENGINE, AT),
        engine_from_json: concurrency_to_json(Arm.REPEAT, 1, 8, "plan", AT),
        concurrency_from_json: observation_to_json("score", observation("p", TokenIds(())), AT),
    }

    with pytest.raises(EvidenceError):
        reader(bodies[reader])


DRAWN = Drawn(rows(4), (3, 1), ("stop", "length"), 4, 3)


@pytest.mark.parametrize(
    "wrong",
    [
        {"lengths": [3, 2]},  # more than there are rows
        {"lengths": [3]},
        {"lengths": [3, 1, 0]},
        {"lengths": [4, 1.0]},
        {"finish_reasons": ["stop"]},
    ],
)
def test_observation_from_json__sequences_that_do_not_add_up(wrong):
    """Draws whose lengths are not those of their rows are no evidence."""
    body = stored(observation_to_json("sampling", observation("p-0", DRAWN), AT))
    body["answer"] |= wrong

    with pytest.raises(EvidenceError, match=r"not as long as its rows|lengths"):
        observation_from_json(body)


def test_engine_from_json__before_filters():
    """Evidence of versions that did not know the order of sampling filters is still read."""
    body = stored(engine_to_json(Arm.CANDIDATE, 0, ENGINE, AT))
    del body["info"]["filters"]

    assert engine_from_json(body)[2].filters == ()


def test_engine_from_json__before_fingerprints():
    """So is evidence without fingerprints: they are not known."""
    body = stored(engine_to_json(Arm.CANDIDATE, 0, ENGINE, AT))
    del body["info"]["tokenizer_sha256"], body["info"]["template_sha256"]
    info = engine_from_json(body)[2]

    assert (info.tokenizer_sha256, info.template_sha256) == ("", "")


@pytest.mark.parametrize("wrong", ["x", "A" * 64, "a" * 63, 7, None])
def test_engine_from_json__no_fingerprint(wrong):
    """What is no sha256 is no fingerprint."""
    body = stored(engine_to_json(Arm.CANDIDATE, 0, ENGINE, AT))
    body["info"]["template_sha256"] = wrong

    with pytest.raises(EvidenceError):
        engine_from_json(body)
