"""The `paths` input: GitHub's documented examples, a second implementation, and no slow pattern."""

from __future__ import annotations

import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from iqaction.action.globs import MAX_PATTERNS, matches, parse, touches
from iqaction.errors import ConfigError

# Pattern, then paths that match and paths that do not: the rows of the table "Patterns to match
# file paths" in GitHub's workflow syntax (facts restated), then the edges of each sign.
TABLE = [
    ("*", ["README.md", "server.rb"], ["docs/README.md"]),
    ("*.jsx?", ["page.js", "page.jsx"], ["page.jsxx", "a/page.js"]),
    ("**", ["all/the/files.md", "one"], []),
    ("*.js", ["app.js", "index.js"], ["src/app.js", "app.jsx"]),
    ("**.js", ["index.js", "js/index.js", "src/js/app.js"], ["index.json"]),
    ("docs/*", ["docs/README.md", "docs/file.txt"], ["docs/a/b.txt", "docs"]),
    ("docs/**", ["docs/README.md", "docs/mona/octocat.txt"], ["docs", "xdocs/a", "a/docs/b"]),
    ("docs/**/*.md", ["docs/README.md", "docs/a/b/mona.md"], ["docs/a.txt", "docsx/a.md"]),
    ("**/docs/**", ["docs/hello.md", "dir/docs/my.txt", "a/docs/b/c"], ["adocs/x", "docs"]),
    ("**/README.md", ["README.md", "js/README.md"], ["xREADME.md", "README.md/x"]),
    ("**/*src/**", ["a/src/app.js", "my-src/code/js/app.js"], ["src", "srcs/app.js"]),
    ("**/*-post.md", ["my-post.md", "path/their-post.md"], ["post.md"]),
    ("**/migrate-*.sql", ["migrate-10909.sql", "db/migrate-v1.0.sql"], ["migrate-a/b.sql"]),
    ("a?b", ["ab", "b"], ["aab", "axb"]),
    ("a+b", ["ab", "aaab"], ["b", "axb"]),
    ("v[12].[0-9]+", ["v1.10", "v2.0"], ["v3.1", "v1.", "v1x0"]),
    ("[CB]at", ["Cat", "Bat"], ["cat", "at"]),
    ("[ab]?x", ["x", "ax", "bx"], ["abx", "cx"]),
    (r"a\*b\?\[c\]", ["a*b?[c]"], ["axb?[c]"]),
    ("a**/b", ["a/b", "ax/y/b"], ["ab"]),
    ("a/**b", ["a/b", "a/x/yb"], ["ab"]),
    ("a]{b}(c|d).$", ["a]{b}(c|d).$"], ["a]b"]),
    (".github/**", [".github/workflows/ci.yml"], ["xgithub/a"]),
    ("*", [".hidden", "ü漢🙂\n"], ["a/b"]),
    ("a!b", ["a!b"], []),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), TABLE, ids=[row[0] for row in TABLE])
def test_matches(pattern: str, yes: list[str], no: list[str]) -> None:
    """A pattern matches what GitHub's documentation says, from end to end."""
    assert yes == [path for path in yes + no if matches(path, (pattern,))]


@pytest.mark.parametrize(
    ("patterns", "path", "expected"),
    [
        (("src/**", "!src/docs/**"), "src/a.py", True),
        (("src/**", "!src/docs/**"), "src/docs/a.md", False),
        (("src/**", "!src/docs/**", "src/docs/api/**"), "src/docs/api/x", True),
        (("!src/docs/**", "src/**"), "src/docs/a.md", True),
        (("src/**", "!src/docs/**"), "other", False),
        ((), "whatever", True),
    ],
)
def test_matches__the_last_one_decides(
    patterns: tuple[str, ...], path: str, expected: bool
) -> None:
    """Order matters; no pattern at all leaves nothing out."""
    assert expected is matches(path, patterns)


@pytest.mark.parametrize(
    "pattern",
    [
        *("?a", "+", "a*?", "*+", "a??", "a++", "**/?", "[]", "[", "[a", "[!a]", "[a_]", "[z-a]"),
        *("[a-Z]", "[a-]", "[-a]", "a\\", "!", "/src/**", "./src", "../x", "src/", "a//b", "a/./b"),
        *("a/../b", "- src/**", "'src/**'", '"src/**"', "*.{yml,yaml}", "x" * 1025),
    ],
)
def test_parse__what_can_match_nothing(pattern: str) -> None:
    """A pattern that matches no path would turn every pull request green: it is refused by name."""
    with pytest.raises(ConfigError) as caught:
        parse(f"**\n{pattern}\n")

    assert repr(pattern)[:80] in str(caught.value)
    with pytest.raises(ConfigError):
        matches("a", (pattern,))


def test_parse() -> None:
    """One pattern a line; blanks and comments are dropped."""
    text = "\n# engines\n  compose.yml \r\n\n!docs/**\n\\#odd\n"

    assert parse(text) == ("compose.yml", "!docs/**", "\\#odd")
    assert parse("# nothing\n\n") == ()


def test_parse__only_negations() -> None:
    """Negations alone never match: GitHub refuses them, and so does the action."""
    with pytest.raises(ConfigError, match="negations"):
        parse("!docs/**")


def test_parse__too_many() -> None:
    """The work is bounded: patterns are counted."""
    with pytest.raises(ConfigError, match=str(MAX_PATTERNS)):
        parse("a\n" * (MAX_PATTERNS + 1))


def as_regex(pattern: str) -> str:
    """The documented meaning once more, over the letters that the property draws."""
    parts = re.findall(r"(?:^|(?<=/))\*\*/|\*\*|\*|\[ab\]\+?|[ab/][?+]?", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*"}
    assert "".join(parts) == pattern
    return "".join(known.get(part, part) for part in parts)


ATOMS = st.sampled_from(["a", "b", "/", "*", "**", "**/", "[ab]", "a?", "b+", "[ab]+"])


@given(st.lists(ATOMS, min_size=1, max_size=8).map("".join), st.text("ab/", max_size=10))
def test_matches__as_a_second_implementation(pattern: str, path: str) -> None:
    """The automaton and a regular expression agree on every pattern and path."""
    try:
        actual = matches(path, (pattern,))
    except ConfigError:
        return

    assert (re.fullmatch(as_regex(pattern), path) is not None) is actual


@pytest.mark.parametrize(
    "pattern",
    ["*a" * 500, "**a" * 300, "a?" * 500, "a+" * 500, "**/a" * 250, "**/*a" * 200, "[a-z]?" * 170],
)
def test_matches__no_pattern_is_slow(pattern: str) -> None:
    """Patterns that make backtracking explode take milliseconds on the longest path."""
    start = time.process_time()

    assert not matches("a" * 4096 + "!", (pattern,))
    assert time.process_time() - start < 2


def test_matches__three_thousand_files() -> None:
    """The longest list that the API gives, against twenty patterns, is no wait."""
    patterns = tuple(f"**/part{i}/**/*.py" for i in range(20))
    start = time.process_time()

    assert not any(matches(f"src/pkg{i}/deep/er/file_{i}.txt", patterns) for i in range(3000))
    assert time.process_time() - start < 5


@given(st.text(max_size=30), st.text(max_size=30))
def test_parse__any_text(text: str, path: str) -> None:
    """Whatever an input holds is read or refused, never a crash."""
    try:
        patterns = parse(text)
    except ConfigError:
        return
    assert matches(path, patterns) in (True, False)


@pytest.mark.parametrize(
    ("path", "pattern", "expected"),
    [
        ("vllm", "vllm/**", True),
        ("third_party/vllm", "third_party/vllm/csrc/*.cu", True),
        ("third_party", "third_party/vllm/csrc/*.cu", True),
        ("third_party/vllm", "third_party/*/csrc/**", True),
        ("vllm2", "vllm/**", False),
        ("vll", "vllm/**", False),
        ("vllm/x", "vllm/*.py", False),
        ("README.md", "**/*.py", False),
        ("docs/x", "**", True),
        ("vllm", "!vllm/**", False),
        ("a/b", "a\\/b/c", True),
    ],
)
def test_touches__above_a_pattern(path: str, pattern: str, expected: bool) -> None:
    """GitHub lists a submodule by its folder's name; it stands for all that is in it."""
    patterns = ("never/at/all", pattern)

    assert expected == touches(path, patterns)


def test_touches__taken_back() -> None:
    """A negation below does not hide the folder above."""
    assert touches("vllm", ("vllm/**", "!vllm/docs/**"))
    assert not touches("vllm/docs/x", ("vllm/**", "!vllm/docs/**"))
