"""Prompt files are untrusted: each is read whole and right, or refused with one clear error."""

import gzip
import hashlib
import json
import sys

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from iqaction import prompts
from iqaction.calls import Message
from iqaction.errors import ConfigError
from iqaction.prompts import Prompt

USER = [{"role": "user", "content": "Why is the sky blue?"}]


def line(**changes: object) -> str:
    """One good line of a prompt file, with keys added, replaced, or (``...``) left out."""
    told = [{"role": "user", "content": f"hello, {changes.get('id', 'a-1')}"}]
    item = {"id": "a-1", "bucket": "short", "messages": told, **changes}
    return json.dumps({k: v for k, v in item.items() if v is not ...})


def file(*lines: str) -> bytes:
    return "".join(f"{x}\n" for x in lines).encode()


def refused(data: bytes) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        prompts.parse(data, "p.jsonl")
    return caught.value


def test_parse() -> None:
    """Every key of a line reaches the prompt, and the sha256 is of the file's bytes."""
    data = file(
        line(messages=USER, max_tokens=128, chat_template_kwargs={"b": [1, {"x": None}], "a": 0.5}),
        line(id="a-2", bucket="code", messages=[{"role": "system", "content": "Be brief."}, *USER]),
    )

    read = prompts.parse(data, "p.jsonl")

    user = Message("user", "Why is the sky blue?")
    assert (
        Prompt("a-1", "short", (user,), 128, '{"a":0.5,"b":[1,{"x":null}]}'),
        Prompt("a-2", "code", (Message("system", "Be brief."), user)),
    ) == read.prompts
    assert hashlib.sha256(data).hexdigest() == read.sha256


def test_parse__order() -> None:
    """Prompts keep the order of the file, which is the order of asking."""
    names = [f"p-{n}" for n in (3, 1, 2)]

    read = prompts.parse(file(*(line(id=n) for n in names)), "p.jsonl")

    assert names == [p.id for p in read.prompts]


def test_parse__defaults() -> None:
    """Only an id and messages are needed; null counts as not given."""
    read = prompts.parse(
        file(line(bucket=..., max_tokens=None, chat_template_kwargs=None)), "p.jsonl"
    )

    (prompt,) = read.prompts
    assert (prompt.bucket, prompt.max_tokens, prompt.template_kwargs) == ("default", None, "")


def test_parse__blank_lines_and_windows_line_ends() -> None:
    """Blank lines, CRLF and a missing last line end change nothing."""
    data = f"\r\n{line()}\r\n   \n{line(id='a-2')}".encode()

    assert [p.id for p in prompts.parse(data, "p.jsonl").prompts] == ["a-1", "a-2"]


def test_parse__byte_order_mark() -> None:
    """A byte order mark is skipped, and is still part of what is hashed."""
    data = b"\xef\xbb\xbf" + file(line())

    read = prompts.parse(data, "p.jsonl")

    assert read.prompts[0].id == "a-1"
    assert hashlib.sha256(data).hexdigest() == read.sha256


@pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\x85", "\x0c"])
def test_parse__line_separators_inside_text(separator: str) -> None:
    """Only a newline ends a line: other separators may stand raw inside a string."""
    if separator == "\x0c":  # control characters below space must be escaped in JSON
        text = json.dumps({"id": "a-1", "messages": USER})
        text = text.replace("sky blue", "sky\\u000cblue")
    else:
        text = json.dumps({"id": "a-1", "messages": USER}).replace(
            "sky blue", f"sky{separator}blue"
        )

    (prompt,) = prompts.parse(file(text), "p.jsonl").prompts

    assert f"Why is the sky{separator}blue?" == prompt.messages[0].content


def test_parse__gzip() -> None:
    """A gzipped file reads the same, and has the same sha256 whatever packed it."""
    data = file(line(), line(id="a-2"))

    assert prompts.parse(data, "p") == prompts.parse(gzip.compress(data, 1), "p")
    assert prompts.parse(data, "p") == prompts.parse(gzip.compress(data, 9), "p")


def test_parse__gzip_of_several_members() -> None:
    """Concatenated gzip files are one file, as `cat a.gz b.gz` makes it."""
    packed = gzip.compress(file(line())) + gzip.compress(file(line(id="a-2")))

    assert len(prompts.parse(packed, "p").prompts) == 2


def damaged() -> bytes:
    """A gzip file whose compressed stream (not its header) is wrong: zlib's own error."""
    packed = bytearray(gzip.compress(file(line()) * 3))
    packed[10:16] = b"\xff" * 6
    return bytes(packed)


@pytest.mark.parametrize(
    "data",
    [
        b"\x1f\x8b",
        b"\x1f\x8b\x07\x00" + bytes(20),
        gzip.compress(file(line()))[:-9],
        gzip.compress(file(line()))[:-4] + b"\0\0\0\0",
        gzip.compress(file(line())) + b"rubbish",
        damaged(),
    ],
    ids=["magic only", "method", "cut", "wrong length", "trailing rubbish", "damaged stream"],
)
def test_parse__broken_gzip(data: bytes) -> None:
    """A damaged archive is a configuration error, whichever layer of gzip notices."""
    assert "p.jsonl: broken gzip file" in str(refused(data))


def test_parse__gzip_bomb() -> None:
    """A small file that unpacks to more than the cap is refused without unpacking it all."""
    bomb = gzip.compress(bytes(prompts.MAX_BYTES + 4096), 1)

    assert f"larger than {prompts.MAX_BYTES} bytes" in str(refused(bomb))


def test_parse__too_large() -> None:
    """The cap holds for plain files too; a file of exactly the cap is read."""
    good = file(line())
    at_cap = good + b" " * (prompts.MAX_BYTES - len(good))

    assert len(prompts.parse(at_cap, "p").prompts) == 1
    assert "p.jsonl: larger than" in str(refused(at_cap + b" "))


def test_parse__too_many_prompts() -> None:
    """The number of prompts is capped."""
    rows = [
        f'{{"id":"{n}","messages":[{{"role":"user","content":"{n}"}}]}}' for n in range(100_001)
    ]

    assert "more than 100000 prompts" in str(refused(file(*rows)))


@pytest.mark.parametrize("data", [b"", b"\n\n  \r\n", b"\xef\xbb\xbf", gzip.compress(b"")])
def test_parse__empty(data: bytes) -> None:
    """A file without a prompt is an error, never an empty set that would judge nothing."""
    assert "p.jsonl: no prompts in it" in str(refused(data))


def test_parse__duplicate_id() -> None:
    """An id used twice is refused, naming both lines."""
    error = refused(file(line(), "", line(id="a-2"), line()))

    assert "p.jsonl:4: the id 'a-1' is used twice (first on line 1)" in str(error)


def test_parse__same_question() -> None:
    """Two prompts that ask the same are one question: counted twice they would prove too much."""
    error = refused(
        file(line(), line(id="a-2"), line(id="a-3", messages=USER), line(id="b", messages=USER))
    )

    assert "p.jsonl:4: 'b' asks the same as 'a-3'" in str(error)


def test_parse__same_question_other_template() -> None:
    """The same messages under other template arguments are another question."""
    other = line(id="b", messages=USER, chat_template_kwargs={"thinking": False})

    assert len(prompts.parse(file(line(messages=USER), other), "p").prompts) == 2


def test_parse__no_id() -> None:
    """A prompt must have a name: nothing is numbered silently."""
    assert "p.jsonl:1: id is None" in str(refused(file(line(id=...))))


def test_parse__ids_are_case_sensitive() -> None:
    """Ids that differ only in case are two ids."""
    assert len(prompts.parse(file(line(id="a"), line(id="A")), "p").prompts) == 2


@pytest.mark.parametrize(
    "text",
    ["{", "hello", "[1,", "{'id': 'a'}", '{"id": "a"} {"id": "b"}', "{" * 5000, "[" * 100_000],
)
def test_parse__not_json(text: str) -> None:
    """A line that is no JSON is named with its number."""
    assert "p.jsonl:2: not JSON" in str(refused(file(line(), text)))


@pytest.mark.skipif(not hasattr(sys, "get_int_max_str_digits"), reason="no limit in this Python")
def test_parse__number_of_5000_digits() -> None:
    """A number that Python refuses to read is an error of the file, not of the tool."""
    text = line(max_tokens=...)[:-1] + ', "max_tokens": ' + "9" * 5000 + "}"

    assert "p.jsonl:1: not JSON" in str(refused(file(text)))


@pytest.mark.parametrize(
    ("text", "found"), [("[]", "a list"), ("7", "7"), ('"x"', "'x'"), ("null", "None")]
)
def test_parse__not_an_object(text: str, found: str) -> None:
    """Each line must be an object."""
    assert f"p.jsonl:1: {found}\n  expected: a JSON object" in str(refused(file(text)))


def test_parse__unknown_key() -> None:
    """A misspelt key is refused, and the nearest valid name is shown."""
    error = refused(file(line(max_token=5)))

    assert "unknown key 'max_token'; did you mean 'max_tokens'?" in str(error)


def test_parse__unknown_key_like_no_other() -> None:
    """A key that resembles none gets the list of valid keys, and no guess."""
    error = refused(file(line(zzz=1)))

    assert "did you mean" not in str(error)
    assert "id, bucket, messages, max_tokens, chat_template_kwargs" in str(error)


def test_parse__repeated_key() -> None:
    """A key given twice is refused, at any depth: one of the two would be lost unseen."""
    top = '{"id": "a", "id": "b", "messages": [{"role": "user", "content": "x"}]}'
    deep = '{"id": "a", "messages": [{"role": "user", "content": "x", "content": "y"}]}'

    assert "the key 'id' is there twice" in str(refused(file(top)))
    assert "the key 'content' is there twice" in str(refused(file(deep)))


@pytest.mark.parametrize(
    "bad",
    [
        None,
        "",
        7,
        True,
        ["a"],
        {"a": 1},
        "-a",
        ".a",
        "_a",
        "a b",
        "a/b",
        "é",
        "a\n",
        "a" * 129,
    ],
)
@pytest.mark.parametrize("key", ["id", "bucket"])
def test_parse__bad_name(key: str, bad: object) -> None:
    """An id or bucket that could harm a path, a table or a log is refused."""
    assert f"p.jsonl:1: {key} is " in str(refused(file(line(**{key: bad}))))


@pytest.mark.parametrize("good", ["a", "0", "A.b_c-9", "a" * 128, "1..2"])
def test_parse__good_name(good: str) -> None:
    """Letters, digits, dots, underscores and dashes make a name, up to 128 of them."""
    (prompt,) = prompts.parse(file(line(id=good, bucket=good)), "p").prompts

    assert (good, good) == (prompt.id, prompt.bucket)


@pytest.mark.parametrize("bad", [0, -1, 1.0, 1.5, "5", True, False, [1], {}, 100_001])
def test_parse__bad_max_tokens(bad: object) -> None:
    """Only a whole number of at least one token, and not an absurd one, is a limit."""
    assert "p.jsonl:1: max_tokens is " in str(refused(file(line(max_tokens=bad))))


@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity", "1e999"])
def test_parse__max_tokens_is_no_number(text: str) -> None:
    """Python's JSON reads NaN and infinities; they are no limit."""
    bad = line(max_tokens="@").replace('"@"', text)

    assert "p.jsonl:1: max_tokens is " in str(refused(file(bad)))


@pytest.mark.parametrize("bad", [[], "x", 1, True])
def test_parse__kwargs_are_no_object(bad: object) -> None:
    """Template arguments are an object or nothing."""
    error = refused(file(line(chat_template_kwargs=bad)))

    assert "p.jsonl:1: chat_template_kwargs is " in str(error)


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("NaN", "is no JSON"),
        ("[1e999]", "is no JSON"),
        ('"\\ud800"', "is no JSON"),
        ('{"\\udfff": 1}', "is no JSON"),
        ("[0, {" + '"d": "\\ud9ff"' + "}]", "is no JSON"),
        ("[" * 20 + "]" * 20, "nested too deeply"),
        ('{"a":' * 20 + "1" + "}" * 20, "nested too deeply"),
    ],
)
def test_parse__kwargs_that_cannot_be_sent(value: str, said: str) -> None:
    """What cannot be written as JSON, or only by luck read back, is refused at the door."""
    text = line(chat_template_kwargs={"x": "@"}).replace('"@"', value)

    error = refused(file(text))

    assert said in str(error)
    assert str(error).startswith("p.jsonl:1: ")


@pytest.mark.parametrize("bad", [..., None, [], "Hello", {}, {"role": "user", "content": "x"}, 3])
def test_parse__no_messages(bad: object) -> None:
    """A prompt without messages is refused."""
    assert "p.jsonl:1: no messages" in str(refused(file(line(messages=bad))))


@pytest.mark.parametrize(
    "bad",
    [
        "Hello",
        None,
        {},
        {"role": "user"},
        {"content": "x"},
        {"role": "user", "content": None},
        {"role": None, "content": "x"},
        {"role": "user", "content": [{"type": "text", "text": "x"}]},
        {"role": "user", "content": "x", "name": "y"},
    ],
)
def test_parse__bad_message(bad: object) -> None:
    """A message is a role and a text and nothing else."""
    error = refused(file(line(messages=[*USER, bad])))

    assert "p.jsonl:1: a message is not a role with a text" in str(error)


@pytest.mark.parametrize("role", ["system", "user", "assistant", "developer", "tool"])
def test_parse__role(role: str) -> None:
    """The roles of the chat API are known."""
    messages = [{"role": role, "content": ""}]

    assert (Message(role, ""),) == prompts.parse(file(line(messages=messages)), "p").prompts[
        0
    ].messages


def test_parse__unknown_role() -> None:
    """Any other role is refused, listing the known ones."""
    error = refused(file(line(messages=[{"role": "User", "content": "x"}])))

    assert "p.jsonl:1: role 'User'\n  expected: system, user, assistant" in str(error)


@pytest.mark.parametrize("half", ["\\ud83d", "\\ude00\\ud83d", "x\\udc00y"])
def test_parse__lone_surrogate(half: str) -> None:
    """Half a character in an escape is refused: it cannot be sent to any server."""
    text = line(messages=[{"role": "user", "content": "@"}]).replace("@", half)

    assert "p.jsonl:1: content holds a lone surrogate" in str(refused(file(text)))


def test_parse__surrogate_pair() -> None:
    """Both halves together are one character."""
    text = line(messages=[{"role": "user", "content": "@"}]).replace("@", "\\ud83d\\ude00")

    assert prompts.parse(file(text), "p").prompts[0].messages[0].content == "\U0001f600"


@pytest.mark.parametrize(
    ("bad", "number"),
    [(b"\xff\xfe{", 1), (file(line()) + b'{"id": "\xe9"}', 2), (b"\n\n\xed\xa0\x80", 3)],
    ids=["utf-16", "latin-1", "surrogate"],
)
def test_parse__not_utf8(bad: bytes, number: int) -> None:
    """Bytes that are not UTF-8 are refused, with the line they stand on."""
    assert f"p.jsonl:{number}: not UTF-8" in str(refused(bad))


@pytest.mark.parametrize(
    "bad",
    [
        line(**{"k" * 200_000: 1}),
        line(id="a" * 200_000),
        line(bucket="\x1b[31m" * 50_000),
        line(messages=[{"role": "r" * 200_000, "content": "x"}]),
        line(max_tokens="9" * 200_000),
        line(max_tokens=10**4000),
        '{"' + "k" * 200_000 + '": 1, "' + "k" * 200_000 + '": 2}',
        line(chat_template_kwargs={"x" * 200_000: [10**4000] * 3}).replace("xxx", "\\ud800"),
    ],
)
def test_parse__errors_are_short_and_clean(bad: str) -> None:
    """An error quotes at most a line's worth of a hostile file, without control characters."""
    said = str(refused(file(bad)))

    assert len(said) < 800
    assert all(c.isprintable() or c == "\n" for c in said)


def test_parse__many_repeated_keys_are_found_in_one_pass() -> None:
    """200,000 keys of which only the last repeats are read as quickly as any others."""
    keys = ",".join(f'"{n}":1' for n in range(200_000))

    assert "the key '199999' is there twice" in str(refused(file(f'{{{keys},"199999":1}}')))


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=400))
@example(b"\x1f\x8b\x08")
@example(b"[" * 100_000)
def test_parse__arbitrary_bytes(data: bytes) -> None:
    """Whatever the bytes, the result is a prompt set or a ConfigError."""
    try:
        read = prompts.parse(data, "p")
    except ConfigError:
        return
    assert read.prompts


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=200), st.integers(0, 400), st.integers(0, 255))
def test_parse__arbitrary_gzip(data: bytes, place: int, value: int) -> None:
    """A gzip file of anything, with any one byte changed, raises nothing else either."""
    packed = bytearray(gzip.compress(data))
    packed[place % len(packed)] = value
    try:
        prompts.parse(bytes(packed), "p")
    except ConfigError:
        return


JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.text(max_size=4) | st.sampled_from(["role", "content"]), inner, max_size=3
        )
    ),
    max_leaves=8,
)


@settings(max_examples=100, deadline=None)
@given(
    st.dictionaries(
        st.sampled_from(["id", "bucket", "messages", "max_tokens", "chat_template_kwargs", "x"]),
        JSON_VALUES,
    )
)
def test_parse__arbitrary_json(changes: dict[str, object]) -> None:
    """Any JSON in any key is accepted or refused, and what is accepted can be sent as JSON."""
    try:
        read = prompts.parse(file(line(**changes)), "p")
    except ConfigError:
        return
    for prompt in read.prompts:
        kwargs = json.loads(prompt.template_kwargs or "{}", parse_constant=lambda _: 1 / 0)
        assert isinstance(kwargs, dict)
        assert all(m.content.encode() is not None for m in prompt.messages)


@settings(max_examples=100, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_parse__round_trip(content: str) -> None:
    """A text comes back character by character, escaped or raw."""
    messages = [{"role": "user", "content": content}]
    for ascii_only in (True, False):
        text = json.dumps({"id": "a", "messages": messages}, ensure_ascii=ascii_only)

        assert content == prompts.parse(file(text), "p").prompts[0].messages[0].content


def test_canonical() -> None:
    """The same object gives the same text, whatever the order of its keys."""
    assert prompts.canonical({"b": True, "a": [1, "é"]}) == '{"a":[1,"\\u00e9"],"b":true}'


@pytest.mark.parametrize("nothing", [None, {}])
def test_canonical__nothing(nothing: "dict[str, object] | None") -> None:
    """No arguments and an empty object are the same: none."""
    assert prompts.canonical(nothing) == ""


@pytest.mark.parametrize("bad", [{1: 2}, {"a": {None: 1}}, {"a": {1, 2}}, {"a": float("nan")}])
def test_canonical__not_json(bad: "dict[str, object]") -> None:
    """What YAML can hold and JSON cannot is a configuration error that names the place."""
    with pytest.raises(ConfigError, match=r"^plan\.yml:3: the template "):
        prompts.canonical(bad, "plan.yml:3")


@pytest.mark.parametrize(
    ("plan", "prompt", "merged"),
    [
        ("", "", ""),
        ('{"a":1}', "", '{"a":1}'),
        ("", '{"a":1}', '{"a":1}'),
        ('{"a":1,"b":2}', '{"b":3,"c":4}', '{"a":1,"b":3,"c":4}'),
        ('{"a":true}', '{"a":null}', '{"a":null}'),
        ('{"a":{"x":1,"y":2}}', '{"a":{"x":3}}', '{"a":{"x":3}}'),
    ],
)
def test_merge_kwargs(plan: str, prompt: str, merged: str) -> None:
    """The prompt's arguments win key by key; a key's value is taken whole, never blended."""
    assert merged == prompts.merge_kwargs(plan, prompt)


@pytest.mark.parametrize(
    ("plan", "own", "limit"),
    [
        (None, None, 256),
        (64, None, 64),
        (None, 16, 16),
        (64, 16, 16),
        (16, 64, 16),
        (512, 300, 300),
    ],
)
def test_max_tokens(plan: "int | None", own: "int | None", limit: int) -> None:
    """The smaller limit holds where both are given; the default only where neither is."""
    assert limit == prompts.max_tokens(plan, Prompt("a", "b", (), own))
