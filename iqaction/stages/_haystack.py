"""Filler to hide a sentence in: as long as wanted, of diverse English sentences. Pure.

Knows sentences and characters; knows no token, engine or verdict.

Every haystack is salted, so that no two begin alike: a prefix cache would answer the second from
the first, and the test would measure the cache. The choices come from sha256 and from nothing
that may change with a release of Python, because evidence is judged again by writing its
questions again: **no word, template or rule below may ever change**. What should differ gets a
new salt beside it.
"""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterator
from itertools import count

_A_PARAGRAPH = 8  # sentences

# No word holds a digit, and no template two numbers: nothing here reads as a code.
_WORDS: dict[str, tuple[str, ...]] = {
    "who": (
        *("The baker", "A retired pilot", "My neighbour", "The librarian", "An old fisherman"),
        *("The gardener", "A young engineer", "Her cousin", "The postman", "A street musician"),
        *("The mayor", "Our teacher", "A travelling salesman", "The blacksmith", "A botanist"),
        *("The night nurse", "His grandmother", "A carpenter", "The lighthouse keeper"),
        *("An archivist", "The tailor", "A beekeeper", "The conductor", "A geologist"),
        *("The innkeeper", "A watchmaker", "The ferryman", "Their uncle", "A translator"),
        *("The caretaker", "A mountain guide", "The pharmacist", "An astronomer", "The printer"),
        *("A shepherd", "The stationmaster", "A glassblower", "The judge", "A cartographer"),
    ),
    "did": (
        *("repaired", "painted", "described", "borrowed", "examined", "dusted", "sold", "found"),
        *("photographed", "admired", "carried", "measured", "cleaned", "sketched", "ordered"),
        *("praised", "inherited", "polished", "misplaced", "collected", "displayed", "restored"),
        *("traded", "ignored", "wrapped", "delivered", "returned", "catalogued", "inspected"),
        *("imagined", "questioned", "rebuilt"),
    ),
    "thing": (
        *("a copper kettle", "the wooden bridge", "an atlas of rivers", "a velvet curtain"),
        *("the church bell", "a set of chess pieces", "an oil lamp", "a bundle of letters"),
        *("the garden fence", "a silver compass", "a crate of apples", "the weather vane"),
        *("a broken violin", "the blue sailing boat", "a jar of honey", "an iron gate"),
        *("a marble fountain", "the family album", "a woollen blanket", "a wicker basket"),
        *("the town clock", "a leather suitcase", "a porcelain bowl", "the old telescope"),
        *("a bicycle without brakes", "the market stall", "a sack of barley", "an amber necklace"),
        *("the stone staircase", "a linen map", "a pair of binoculars", "the kitchen table"),
        *("a rusty anchor", "the greenhouse door", "a tin of buttons", "an unfinished portrait"),
        *("a rocking chair", "the cellar lock", "a coil of rope", "the printing press"),
    ),
    "place": (
        *("near the harbour", "behind the town hall", "in a narrow alley", "by the canal"),
        *("under the chestnut tree", "at the edge of the forest", "in the attic", "on the ferry"),
        *("beside the railway line", "in the botanical garden", "at the quarry", "on a hillside"),
        *("in the village square", "next to the mill", "across the valley", "in the reading room"),
        *("along the coast road", "above the bakery", "in an empty warehouse", "at the crossroads"),
        *("beyond the vineyard", "in the courtyard", "on the frozen lake", "at the border post"),
        *("inside the observatory", "below the dam", "in the concert hall", "at the south gate"),
        *("among the dunes", "in the waiting room", "on the upper deck", "in a mountain hut"),
    ),
    "when": (
        *("before sunrise", "on a rainy Tuesday", "late in autumn", "during the festival"),
        *("after the long winter", "at noon", "one quiet evening", "in early spring"),
        *("while the kettle boiled", "on the first warm day", "shortly after midnight"),
        *("in the middle of July", "on market day", "just before the storm", "last Sunday"),
        *("when the snow had melted", "at the end of the harvest", "between two trains"),
        *("on the way home", "during the lunch break", "as the fog lifted", "on Friday"),
        *("at dusk", "many years later", "in the dry season", "when nobody was looking"),
    ),
    "how": (
        *("with great patience", "without a word", "in a hurry", "with borrowed tools"),
        *("rather carelessly", "for the second time", "with a smile", "out of curiosity"),
        *("by candlelight", "against all advice", "with cold hands", "as a favour"),
        *("in complete silence", "with unusual care", "half asleep", "for a small fee"),
        *("on a friend's advice", "to everyone's surprise", "with a heavy heart", "for good luck"),
    ),
    "adj": (
        *("quiet", "crooked", "generous", "dusty", "cheerful", "distant", "fragile", "bitter"),
        *("golden", "hollow", "gentle", "muddy", "narrow", "tranquil", "pale", "remote"),
        *("sturdy", "talkative", "wobbly", "vivid", "weary", "brittle", "curious", "drowsy"),
        *("famous", "graceful", "humble", "frosty", "lonely", "modest", "noisy", "peculiar"),
        *("restless", "shallow", "tidy", "useful", "wooden", "faded", "solemn", "sudden"),
    ),
    "noun": (
        *("pasture", "river", "lantern", "meadow", "tunnel", "window", "harvest", "journey"),
        *("letter", "machine", "shadow", "kitchen", "festival", "garden", "melody", "village"),
        *("library", "season", "bargain", "rumour", "workshop", "harbour", "picture", "promise"),
        *("recipe", "sculpture", "theatre", "valley", "chimney", "ladder", "painting", "quarrel"),
        *("procession", "carriage", "mirror", "notebook", "staircase", "raincoat", "whistle"),
        *("cathedral", "newspaper", "saddle", "thunderstorm", "vineyard", "wardrobe"),
    ),
    "stuff": (
        *("cinnamon", "wet wool", "fresh paint", "pine resin", "burnt sugar", "sea salt", "smoke"),
        *("lavender", "old paper", "machine oil", "ripe pears", "cut grass", "coffee", "leather"),
        *("rain on stone", "roasted chestnuts", "turpentine", "warm bread", "mint", "cold iron"),
    ),
    "fact": (
        *("owls turn their heads without a sound", "glass is made from sand"),
        *("tides follow the moon", "copper turns green in the rain", "bees dance to show the way"),
        *("bamboo grows faster than most trees", "cork floats because of its tiny cells"),
        *("granite cools slowly underground", "maple leaves redden in the cold"),
        *("salt lowers the freezing point of water", "swifts can sleep in the air"),
        *("ink was once made from oak galls", "chalk is the remains of tiny shells"),
        *("a magnet loses its strength in the fire", "snow muffles the noise of a city"),
        *("wool keeps warm even when it is damp", "amber began as the resin of trees"),
        *("yeast makes dough rise overnight", "moss needs no roots to drink"),
        *("cedar wood keeps moths away", "spiders mend their webs at night"),
    ),
    "few": (
        *("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
        *("a dozen", "fifteen", "twenty", "thirty", "fifty", "a hundred"),
    ),
}
_TEMPLATES = (
    "{who} {did} {thing} {place} {when}.",
    "{who} {did} {thing} {how}, although the {adj} {noun} was still {place}.",
    "It is said that {fact}, and the {adj} {noun} {place} is proof of it.",
    "The {noun} smelled of {stuff} and {stuff2}, as it always did {when}.",
    "Nobody {place} had seen such {adj} weather for {few} years.",
    "{who} once wrote that {fact}; the {noun} became {adj} all the same.",
    "There were {few} chairs around the {adj} {noun}, and {thing} stood {place}.",
    "{who} {did} {thing} {when}, and {few} visitors {did2} the {noun}.",
    "A {adj} {noun} is worth more than a {adj2} {noun2}, the proverb goes.",
    "Children know that {fact}, but few have heard it {place}.",
    "{who} paid {number} coins for {thing} and {did} it {how}.",
    "Between the {noun} and the {noun2} lay {thing}, {adj} and covered in {stuff}.",
    "The ledger lists {number} barrels, a {adj} {noun} and {thing}.",
    "{who} told the story of the {adj} {noun} {how}, {when}.",
    "What remained of the {noun} was {adj}: {thing}, a little {stuff}, and a {noun2}.",
    "Since {fact}, {few} of the workers stayed {place} until evening.",
    "Page {number} of the guide praises the {adj} {noun} {place}.",
    "{who} and a {adj} stranger {did} {thing} {place}.",
    "Every {noun} in the district is {adj}, except the one {place}.",
    "The recipe asks for {stuff}, {stuff2} and {few} spoons of patience.",
    "{who} would have {did} {thing} if the {noun} had been less {adj}.",
    "From the {adj} {noun} one can walk to the {noun2} in {number} minutes.",
    "They argued {when} whether {fact}, until {someone} {did} {thing}.",
    "A photograph shows {thing} {place}, with a {adj} {noun} behind it.",
)


_WORDS["someone"] = tuple(w[0].lower() + w[1:] for w in _WORDS["who"])
_WORDS["number"] = tuple(str(n) for n in range(12, 984))


def _slots(template: str) -> tuple[tuple[str, tuple[str, ...]], ...]:
    """What stands before each gap of a template, and the words that may fill it."""
    parts = string.Formatter().parse(template)
    return tuple(
        (before, _WORDS[(kind or "").rstrip("2")] if kind else ("",))
        for before, kind, _, _ in parts
    )


_SLOTS = tuple(_slots(t) for t in _TEMPLATES)


def sentences(salt: str) -> Iterator[str]:
    """Sentence after sentence without an end, always the same ones for one salt."""
    for i in count():
        yield _sentence(salt, i)


def _sentence(salt: str, i: int) -> str:
    """Each choice is the remainder of what the choices before it left of one large number."""
    left = int.from_bytes(hashlib.sha256(f"{salt}/{i}".encode()).digest(), "big")
    left, template = divmod(left, len(_SLOTS))
    found = []
    for before, words in _SLOTS[template]:
        left, word = divmod(left, len(words))
        found += [before, words[word]]
    return "".join(found)


def filler(salt: str, characters: float) -> tuple[str, ...]:
    """As many sentences as fit into that many characters, spaces between them included."""
    found: list[str] = []
    room = characters
    for sentence in sentences(salt):
        room -= len(sentence) + (2 if len(found) % _A_PARAGRAPH == 0 else 1)
        if not room >= 0:
            return tuple(found)
        found.append(sentence)
    raise AssertionError("sentences do not end")


def text(parts: tuple[str, ...]) -> str:
    """The sentences as one text, a few to a paragraph."""
    paragraphs = (parts[i : i + _A_PARAGRAPH] for i in range(0, len(parts), _A_PARAGRAPH))
    return "\n\n".join(" ".join(p) for p in paragraphs)


def hide(needle: str, depth: float, parts: tuple[str, ...]) -> tuple[str, ...]:
    """The sentences with one more among them: a share ``depth`` of the text stands before it."""
    total = sum(map(len, parts))
    before, at = 0.0, 0
    while at < len(parts) and before + len(parts[at]) / 2 < depth * total:
        before += len(parts[at])
        at += 1
    return (*parts[:at], needle, *parts[at:])
