"""Names of accounts in every script, and which of them are the same to a reader.

A name is in Unicode's compatibility form (NFKC), because other forms look like it. Exceptions are
letters that their scripts write in a form which NFKC takes apart, and joiners, which are invisible
but change the shape of letters in some scripts.
"""

from __future__ import annotations

import re
import unicodedata

ZWNJ, ZWJ = "\u200c", "\u200d"
KEPT = re.compile(
    "[\u0e33\u0eb3\u0958-\u095f\u09dc\u09dd\u09df\u0a33\u0a36\u0a59-\u0a5b\u0a5e\u0b5c\u0b5d]"
)
"""Thai and Lao sara am, and Indic letters with a nukta: as keyboards write them."""
SPLIT_SARA_AM = re.compile("\u0e4d[\u0e48-\u0e4b]*\u0e32|\u0ecd[\u0ec8-\u0ecb]*\u0eb2")
"""Two characters that look like a sara am. Tone marks may stand between them."""
INDIC = (0x0900, 0x0DFF)
"""Blocks from Devanagari to Sinhala, of 128 characters each. They need both joiners."""
ARABIC = ((0x0600, 0x074F), (0x0750, 0x077F), (0x0860, 0x08FF))
"""Blocks of Arabic and Syriac. They need the non-joiner."""
VIRAMA_CLASS = 9
CHILLUS = {
    "\u0d7a": "\u0d23\u0d4d",
    "\u0d7b": "\u0d28\u0d4d",
    "\u0d7c": "\u0d30\u0d4d",
    "\u0d7d": "\u0d32\u0d4d",
    "\u0d7e": "\u0d33\u0d4d",
    "\u0d7f": "\u0d15\u0d4d",
    "\u09ce": "\u09a4\u09cd",
}
"""Malayalam chillus and Bengali khanda ta: older texts write them with a virama and a joiner."""
COMPARED = str.maketrans(CHILLUS | {ZWNJ: "", ZWJ: ""})


def is_visible(text: str) -> bool:
    """Return whether a reader sees each character, or its effect on the letters beside it."""
    return all(
        is_joiner_in_place(text, at) if c in (ZWNJ, ZWJ) else c.isprintable()
        for at, c in enumerate(text)
    )


def is_in_usual_form(name: str) -> bool:
    """Return whether the name has no characters that look like others of it."""
    parts = KEPT.split(name)
    is_normal = all(unicodedata.is_normalized("NFKC", part) for part in parts)
    return is_normal and SPLIT_SARA_AM.search(name) is None


def comparison_key(name: str) -> str:
    """Return a text that is equal for names which differ by case, joiners or form only."""
    key = name.translate(COMPARED)
    for _ in range(2):  # the result of the first turn may have another form or case
        key = unicodedata.normalize("NFKC", key.casefold()).translate(COMPARED)
    return key


def is_joiner_in_place(text: str, at: int) -> bool:
    """Return whether the joiner follows a virama, or is between letters of a script that needs it.

    As RFC 5892 (appendix A), and wider for Bengali and Kannada, which join before the virama.
    """
    before, after = text[at - 1 : at], text[at + 1 : at + 2]
    if not before or not is_letter(before):
        return False
    if (block := indic_block(before)) is not None:
        if unicodedata.combining(before) == VIRAMA_CLASS:
            return after not in (ZWNJ, ZWJ) or not after
        return bool(after) and is_letter(after) and indic_block(after) == block
    is_between = bool(after) and is_letter(after) and is_arabic(before) and is_arabic(after)
    return text[at] == ZWNJ and is_between


def is_letter(character: str) -> bool:
    """Return whether it is a letter, or a mark on one."""
    return unicodedata.category(character)[0] in "LM"


def indic_block(character: str) -> int | None:
    first, last = INDIC
    return ord(character) // 128 if first <= ord(character) <= last else None


def is_arabic(character: str) -> bool:
    return any(first <= ord(character) <= last for first, last in ARABIC)
