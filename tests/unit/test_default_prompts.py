"""The prompt sets and plans in the package hold what their README promises."""

import itertools
import json
import re
import unicodedata
from collections import Counter
from collections.abc import Iterator
from importlib import resources
from pathlib import Path

import pytest

from iqaction import prompts, sources
from iqaction.errors import ConfigError
from iqaction.prompts import Prompt, PromptSet

DATA = resources.files("iqaction") / "data"
BUCKETS = {
    "very_short",
    "short",
    "medium",
    "long",
    "code",
    "json",
    "multilingual",
    "reasoning",
}
FIRST_LOOK = 96


@pytest.fixture(scope="module")
def default() -> PromptSet:
    return prompts.parse((DATA / "default_prompts.jsonl").read_bytes(), "default_prompts.jsonl")


@pytest.fixture(scope="module")
def demo() -> PromptSet:
    return prompts.parse((DATA / "demo_prompts.jsonl").read_bytes(), "demo_prompts.jsonl")


def text(prompt: Prompt) -> str:
    return "\n".join(m.content for m in prompt.messages)


def words(prompt: Prompt) -> int:
    return len(text(prompt).split())


def of(default: PromptSet, bucket: str) -> Iterator[Prompt]:
    found = [p for p in default.prompts if p.bucket == bucket]
    assert found
    yield from found


def shingles(value: str, size: int = 8) -> set[str]:
    """All runs of ``size`` characters, case and spacing aside: the same for any script."""
    value = " ".join(value.casefold().split())
    return {value[i : i + size] for i in range(max(1, len(value) - size + 1))}


def test_default__enough_for_two_looks(default: PromptSet) -> None:
    """The set feeds a first look of 96 prompts and one extension by as many."""
    assert len(default.prompts) >= 2 * FIRST_LOOK
    assert len(default.prompts) == 208


def test_default__small(default: PromptSet) -> None:
    """The file stays below 400 KB, and so does the wheel."""
    assert len((DATA / "default_prompts.jsonl").read_bytes()) < 400_000


@pytest.mark.parametrize("looked", [FIRST_LOOK, 2 * FIRST_LOOK, 208])
def test_default__balanced(default: PromptSet, looked: int) -> None:
    """Whatever a look covers, each bucket has the same share of it."""
    counts = Counter(p.bucket for p in default.prompts[:looked])

    assert counts == dict.fromkeys(BUCKETS, looked // len(BUCKETS))


def test_default__interleaved(default: PromptSet) -> None:
    """Each run of eight holds one prompt of each bucket: a smaller limit is balanced too."""
    for first in range(0, len(default.prompts), len(BUCKETS)):
        assert {p.bucket for p in default.prompts[first : first + len(BUCKETS)]} == BUCKETS


def test_default__ids(default: PromptSet) -> None:
    """An id is the bucket and a number that counts up within it."""
    for bucket in BUCKETS:
        ids = [p.id for p in of(default, bucket)]

        assert ids == [f"{bucket}-{n:03d}" for n in range(1, len(ids) + 1)]


def test_default__no_near_duplicates(default: PromptSet) -> None:
    """No two prompts share a fifth of their 8-character shingles (Jaccard), nor does one hold a
    half of another's: each counts as an independent unit."""
    each = [(p.id, shingles(text(p))) for p in default.prompts]
    near = [
        (a, b)
        for (a, one), (b, two) in itertools.combinations(each, 2)
        if (common := len(one & two)) > 0.2 * len(one | two)
        or common > 0.5 * min(len(one), len(two))
    ]

    assert near == []


def test_default__near_duplicates_would_be_found() -> None:
    """The measure sees a prompt in which two words were exchanged."""
    one = shingles("Write a polite e-mail asking a landlord to repair a dripping kitchen tap.")
    two = shingles("Write a polite e-mail asking a landlord to repair a creaking garden gate.")

    assert len(one & two) > 0.2 * len(one | two)


def test_default__texts_are_unique(default: PromptSet) -> None:
    """No message of any role is used twice, system messages included."""
    seen = Counter(" ".join(m.content.split()) for p in default.prompts for m in p.messages)

    assert [m for m, n in seen.items() if n > 1] == []


@pytest.mark.parametrize(
    ("bucket", "least", "most"),
    [
        ("very_short", 1, 25),
        ("short", 10, 30),
        ("medium", 50, 200),
        ("long", 350, 1200),
        ("code", 20, 250),
        ("json", 20, 250),
        ("reasoning", 20, 200),
    ],
)
def test_default__lengths(default: PromptSet, bucket: str, least: int, most: int) -> None:
    """Each bucket holds the lengths its name promises (system and earlier turns included)."""
    outside = [(p.id, words(p)) for p in of(default, bucket) if not least <= words(p) <= most]

    assert outside == []


def test_default__very_short_is_very_short(default: PromptSet) -> None:
    """The last message of a very short prompt has at most five words."""
    assert all(len(p.messages[-1].content.split()) <= 5 for p in of(default, "very_short"))


@pytest.mark.parametrize("looked", [FIRST_LOOK, 208])
def test_default__kinds_of_chat(default: PromptSet, looked: int) -> None:
    """System messages and earlier turns are there, already in the first look."""
    seen = default.prompts[:looked]

    assert sum(p.messages[0].role == "system" for p in seen) >= 4
    assert sum(any(m.role == "assistant" for m in p.messages) for p in seen) >= 2


def test_default__chats_are_well_formed(default: PromptSet) -> None:
    """At most one system message, first; then user and assistant in turn; the user asks last.
    Many chat templates refuse anything else."""
    for prompt in default.prompts:
        roles = [m.role for m in prompt.messages if m.role != "system"]

        assert [m.role for m in prompt.messages].count("system") == (
            prompt.messages[0].role == "system"
        )
        assert roles == [("user", "assistant")[n % 2] for n in range(len(roles))]
        assert roles[-1] == "user"


@pytest.mark.parametrize(
    "script",
    [
        "CYRILLIC",
        "GREEK",
        "ARABIC",
        "HEBREW",
        "DEVANAGARI",
        "BENGALI",
        "TAMIL",
        "THAI",
        "HIRAGANA",
        "HANGUL",
        "CJK UNIFIED",
        "LATIN SMALL LETTER O WITH HORN",  # Vietnamese
        "LATIN SMALL LETTER DOTLESS I",  # Turkish
        "LATIN SMALL LETTER L WITH STROKE",  # Polish
        "LATIN SMALL LETTER A WITH TILDE",  # Portuguese
        "INVERTED QUESTION MARK",  # Spanish
        "BICYCLE",  # emoji
    ],
)
def test_default__scripts(default: PromptSet, script: str) -> None:
    """Scripts and alphabets of many kinds are in it: tokenizers fail by script."""
    characters = {c for p in default.prompts for c in text(p)}

    assert any(unicodedata.name(c, "").startswith(script) for c in characters)


def test_default__normalised(default: PromptSet) -> None:
    """Texts are in composed form, without control characters or stray spaces at their ends, so
    that no tool on the way may change them."""
    for prompt in default.prompts:
        for message in prompt.messages:
            assert message.content == unicodedata.normalize("NFC", message.content)
            assert message.content == message.content.strip()
            assert not any(
                unicodedata.category(c) == "Cc" and c != "\n" for c in message.content
            ), prompt.id


@pytest.mark.parametrize(
    "pattern",
    [
        r"[\w.+-]+@[\w-]+\.\w+",  # e-mail
        r"https?:|ftp:|www\.|\b[a-z0-9-]+\.(com|net|org|io|de|dev)\b",  # links
        r"\+\d{1,3}[ -]?\(?\d{2}|\(\d{3}\) ?\d{3}|\b\d{3}-\d{3,4}-\d{4}\b|\b0\d{2,4}[ /-]\d{4,}",
        r"\b\d{1,3}(\.\d{1,3}){3}\b",  # IP addresses
        r"\b[A-Z]{2}\d{2}(?: ?\d{4}){3,}",  # IBAN
        r"(?i)\b(sk|ghp|hf|akia)[-_]?[a-z0-9]{16,}|BEGIN [A-Z ]*PRIVATE KEY|password\s*[:=]",
    ],
    ids=["e-mail", "link", "telephone", "ip", "iban", "secret"],
)
def test_sets__no_personal_data(default: PromptSet, demo: PromptSet, pattern: str) -> None:
    """No addresses, links, telephone or account numbers, and nothing like a key."""
    found = [
        (p.id, hit.group())
        for p in (*default.prompts, *demo.prompts)
        if (hit := re.search(pattern, text(p)))
    ]

    assert found == []


def test_sets__plain_lines() -> None:
    """Each line is what ``json.dumps`` writes, with the keys in the documented order: a change of
    one prompt is a change of one line."""
    for name in ("default_prompts.jsonl", "demo_prompts.jsonl"):
        lines = (DATA / name).read_bytes().decode().splitlines(keepends=True)
        for line in lines:
            item = json.loads(line)

            assert line == json.dumps(item, ensure_ascii=False) + "\n"
            assert list(item)[:3] == ["id", "bucket", "messages"]


def test_demo__size(demo: PromptSet) -> None:
    """64 prompts, each of at most 16 tokens' answer: enough to PASS, short enough to wait for."""
    assert len(demo.prompts) == 64
    assert {p.max_tokens for p in demo.prompts} == {16}


def test_demo__short_plain_english(demo: PromptSet) -> None:
    """One user message of at most eight words and 48 plain characters: below 48 tokens with the
    chat template of SmolLM2, and answered without byte-fragment tokens."""
    for prompt in demo.prompts:
        (message,) = prompt.messages

        assert message.role == "user"
        assert message.content.isascii()
        assert message.content.isprintable()
        assert len(message.content.split()) <= 8
        assert len(message.content) <= 48


def test_demo__varied(demo: PromptSet) -> None:
    """Six buckets, each with several prompts, and no text twice."""
    counts = Counter(p.bucket for p in demo.prompts)

    assert set(counts) == {"facts", "how_to", "writing", "maths", "code", "opinion"}
    assert min(counts.values()) >= 8
    assert len({text(p).casefold() for p in demo.prompts}) == 64
    assert all(re.fullmatch(rf"{p.bucket}-\d\d", p.id) for p in demo.prompts)


def test_sets__readme_example_is_valid() -> None:
    """The example in the README is a prompt file."""
    readme = (DATA / "README.md").read_text(encoding="utf-8")
    (example,) = re.findall(r"```json\n(.*?)```", readme, re.DOTALL)

    (prompt,) = prompts.parse(example.encode(), "README.md").prompts

    assert prompt.id == "refund-001"
    with pytest.raises(ConfigError, match="used twice"):
        prompts.parse((example * 2).encode(), "README.md")


def test_default_plan__uses_the_default_prompts() -> None:
    """Without a plan, 96 of the built-in prompts are judged, and the set can extend them."""
    request = sources.plan_file(None)

    assert request.limit == FIRST_LOOK
    assert len(sources.prompt_file(request, None).prompts) >= 2 * FIRST_LOOK


def test_demo_plan__fits_the_demo_prompts() -> None:
    """The demo asks every demo prompt once, one at a time, within the prompts' own limit, and
    judges the reference leg against the default margins."""
    request = sources.plan_file(Path(str(DATA / "demo_plan.yml")))
    trajectory, score = request.stages
    default_score = sources.plan_file(None).stages[1]

    assert len(sources.prompt_file(request, None).prompts) == request.limit == 64
    assert (trajectory.integer("max_tokens"), trajectory.integer("concurrency")) == (16, 1)
    assert score.names("legs") == ("reference",)
    assert score.margins == default_score.margins
