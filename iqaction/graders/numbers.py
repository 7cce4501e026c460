r"""The number that a text gives as its answer, and the rule that found it. Pure.

Knows how models write numbers and final answers; no question, dataset or engine. One text:
``"16 - 7 = 9 eggs at $2 each.\n#### $18.00"`` reads as 18, by the rule ``####``.

The rules, the first that finds a number: after ``####``, the first of them, since a run-on text
goes on to other questions; in the last ``\boxed{}``; after the last "the answer is"; the last
number. A text that was cut off has only the first two: the last number before a cut is a step on
the way, and a number that the cut itself ended may be half of one.
"""

from __future__ import annotations

import re
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import islice

MARK = "####"
BOXED = "boxed"
ANSWER_IS = "answer is"
LAST = "last number"

_MOST_CHARACTERS = 200_000  # of the end of a text: an answer is a thousand tokens
_MOST_PLACES = 1_000  # marks, boxes and phrases that are looked at
_NEAR = 400  # characters after one of these, within which its number stands
_MOST_DIGITS = 30
_MOST_EXPONENT = 18

# Between digits: a comma, or a space or apostrophe that is set to group thousands.
_GROUP = r"[,\u2009\u202f\u00a0'\u2019]"
_WHOLE = (
    rf"(?:[0-9]{{1,3}}(?:{_GROUP}[0-9]{{3}})+(?![0-9])"
    r"|[0-9]{1,2}(?:,[0-9]{2})+,[0-9]{3}(?![0-9])"  # lakhs
    r"|[0-9]+)"
)
_MINUS = "-\u2212\u2013\ufe63\uff0d"
_NUMBER = re.compile(
    r"(?<![A-Za-z0-9_])(?<![0-9][.,])"
    rf"(?:(?<![)\]%])(?P<minus>[{_MINUS}])\s?(?=[$£€¥₹.0-9]))?"
    rf"(?:[$£€¥₹]\s?)?(?P<inner>[{_MINUS}](?=[0-9.]))?"
    rf"(?:(?P<whole>{_WHOLE})(?P<part>\.[0-9]+)?|(?<!\.)(?P<only>\.[0-9]+))"
    r"(?P<power>[eE][+-]?[0-9]+)?(?::00(?![0-9]))?"
    r"(?:(?:\s{1,2}(?P<top>[0-9]{1,4}))?\s?/\s?(?P<bottom>[0-9]{1,9})(?![0-9./]))?"
)
_PLAIN = re.compile(r"[^0-9]")
_RUN_ON = re.compile(
    r"\n[#* \t]{0,9}(?:Question|Problem|Q|Human|User) ?(?:\d{1,4} ?)?:"
    r"|<\|(?:im_start|im_end|end|eot)"
)
_PHRASE = re.compile(
    r"\banswer(?:\s+(?:to|for)\s[^.\n:]{1,80}?)?\s*"
    r"(?:\b(?:is|was|would be|will be|should be|must be|equals|comes (?:out )?to)\b\s*:?|[:=])",
    re.IGNORECASE,
)
# Blanks belong to one part only: where two parts may share them, a text of blanks takes for ever.
_LABEL = re.compile(
    r"(?:(?:so|thus|therefore),?\s+(?!\s))?(?:(?:the|my)\s+(?!\s))?"
    r"(?:(?:final|correct)\s+(?!\s))?"
    r"(?:answer|result|total)?(?:\s*is\b)?(?:\s*[:=])?\s*(?=[^\w\s]|[0-9])",
    re.IGNORECASE,
)
_HEADING = re.compile(r"\s*[.):]\s+[^\W\d_]")  # "1. Find the eggs": a step, not an answer
_SENTENCE_END = re.compile(r"(?<=[a-z0-9)%])[.!?](?:\s|$)")
_BOX = re.compile(r"\\f?box(?:ed)?\s*\{")
_BEFORE = " \t$£€¥₹([{\"'<:~\u2248"  # may stand between a mark and its number
_TEXT = re.compile(r"\\(?:text(?:bf|it|rm)?|math(?:rm|bf|it|sf)|mbox|bm|bold)\s*\{([^{}]*)\}")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{([^{}]*)\}\s*\{([^{}]*)\}")
_LATEX = (
    (re.compile(r"\\([$%#&])"), r"\1"),
    (re.compile(r"\{,\}|,\\!|\\,(?=[0-9]{3}(?![0-9]))"), ","),
    (re.compile(r"\\!"), ""),
    (re.compile(r"\\(?:[,;: ()\[\]]|quad\b|left\b|right\b|displaystyle\b)|~"), " "),
    (re.compile(r"(?<=[0-9])\*\*(?=[0-9])"), " "),  # a power, not bold
    (re.compile(r"\*\*|`"), ""),
    (re.compile(r"[*_]"), " "),
)


@dataclass(frozen=True)
class Reading:
    """A number in a text, and the rule that found it: ``####``, ``boxed``, ``answer is`` or
    ``last number``."""

    value: Fraction
    rule: str


def read(text: str, *, cut: bool = False) -> Reading | None:
    """The answer in a text, reasoning left out; None where there is none.

    ``cut`` says that the text ended at a limit, and not by itself.
    """
    whole = _unfolded(text[-_MOST_CHARACTERS:])
    marked = _marked(whole, cut)
    if marked is not None:
        return Reading(marked, MARK)
    one = _first_question(whole)
    boxed = _boxed(one)
    if boxed is not None:
        return Reading(boxed, BOXED)
    if cut:
        return None
    clean = _clean(one)
    said = _after_phrase(clean)
    if said is not None:
        return Reading(said, ANSWER_IS)
    found = [value for _, value in _numbers(clean)]
    return Reading(found[-1], LAST) if found else None


def gold(answer: str) -> Fraction | None:
    """The number after the last ``####`` of a dataset's own answer; None where there is none."""
    _, mark, after = answer.rpartition(MARK)
    found = [value for _, value in _numbers(_clean(_unfolded(after)))] if mark else []
    return found[0] if len(found) == 1 else None


def shown(value: Fraction) -> str:
    """A number as a person writes it: "18", "-10", "0.75", "1/3"."""
    if value.denominator == 1:
        return str(value.numerator)
    digits = f"{float(value):.10g}"
    return digits if Fraction(digits) == value else str(value)


def _unfolded(text: str) -> str:
    """Digits and signs of other scripts and widths as ASCII ones."""
    if text.isascii():
        return text
    out = []
    for c in text:
        if not c.isascii() and unicodedata.category(c) == "Nd":
            out.append(str(unicodedata.digit(c)))
        else:
            out.append(_WIDE.get(c, c))
    return "".join(out)


_WIDE = {"\uff0c": ",", "\uff0e": ".", "\uff04": "$", "\uff05": "%", "\uff1a": ":", "\uff03": "#"}


def _clean(text: str) -> str:
    """Without the marks of LaTeX and Markdown that stand around numbers."""
    if "\\" in text:
        text = _FRACTION.sub(r" \1/\2 ", text)
        for _ in range(3):  # nested
            text = _TEXT.sub(r" \1 ", text)
    for pattern, replacement in _LATEX:
        text = pattern.sub(replacement, text)
    return text


def _numbers(text: str) -> Iterator[tuple[re.Match[str], Fraction]]:
    for match in _NUMBER.finditer(text):
        value = _value(match)
        if value is not None:
            yield match, value


def _value(match: re.Match[str]) -> Fraction | None:
    whole, part = _PLAIN.sub("", match["whole"] or ""), match["part"] or match["only"] or ""
    power = int(match["power"][1:]) if match["power"] and len(match["power"]) < 6 else 0
    if not (whole or part) or len(whole) + len(part) > _MOST_DIGITS or abs(power) > _MOST_EXPONENT:
        return None
    if match["power"] and len(match["power"]) >= 6:
        return None
    value = Fraction(f"{whole or 0}{part}") if part else Fraction(int(whole))
    if power:
        value *= Fraction(10) ** power
    bottom, top = match["bottom"], match["top"]
    if bottom is not None:
        if not int(bottom):
            return None
        value = value + Fraction(int(top), int(bottom)) if top else value / int(bottom)
    return -value if match["minus"] or match["inner"] else value


def _stated(segment: str) -> tuple[int, Fraction] | None:
    """What a short statement says: after its last equals sign, else its first number; and where
    that number ends."""
    at = segment.rfind("=") + 1
    for start in (at, 0) if at else (0,):
        for match, value in _numbers(segment[start:]):
            return start + match.end(), value
    return None


def _marked(text: str, cut: bool) -> Fraction | None:
    """The number of the first ``####`` that states one; a heading with a number does not."""
    for mark in islice(re.finditer(r"#{4,}", text), _MOST_PLACES):
        # The number may stand on the next line.
        line, ended, _ = text[mark.end() : mark.end() + _NEAR].lstrip().partition("\n")
        line = _clean(line).lstrip()
        label = _LABEL.match(line)
        body = line[label.end() :] if label else line
        first = next(_numbers(body), None)
        if first is None or body[: first[0].start()].strip(_BEFORE):
            continue
        if _HEADING.match(body, first[0].end()):
            continue
        said = _stated(body)
        if said is not None and not (cut and said[0] == len(body) and not ended):
            return said[1]
    return None


def _first_question(text: str) -> str:
    """Without what a run-on text asks itself next, once it has said a number."""
    digit = re.search(r"[0-9]", text)
    following = _RUN_ON.search(text, digit.end()) if digit else None
    return text[: following.start()] if following else text


def _last(pattern: re.Pattern[str], text: str) -> Iterator[str]:
    """What follows each place of the pattern, the last one first."""
    for match in reversed(deque(pattern.finditer(text), _MOST_PLACES)):
        yield text[match.end() : match.end() + _NEAR]


def _boxed(text: str) -> Fraction | None:
    for after in _last(_BOX, text):
        depth, at = 1, 0
        while at < len(after) and depth:
            depth += {"{": 1, "}": -1}.get(after[at], 0)
            at += 1
        said = None if depth else _stated(_clean(after[: at - 1]))
        if said is not None:
            return said[1]
    return None


def _after_phrase(text: str) -> Fraction | None:
    for after in _last(_PHRASE, text):
        line = after.lstrip(" \t:\n").split("\n", 1)[0]
        said = _stated(_SENTENCE_END.split(line, maxsplit=1)[0])
        if said is not None:
            return said[1]
    return None
