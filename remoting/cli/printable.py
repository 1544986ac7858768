"""Text from the appliance without characters that control a terminal.

Names, reasons and messages come from other users, from nodes and from machines that are being
enrolled. All responses pass through here, so no command prints such a character.
"""

from __future__ import annotations

from typing import Any

LINE_CHARACTERS = "\n\t"


def printable(content: Any) -> Any:
    """Return decoded JSON with the other unprintable characters of its strings escaped."""
    if isinstance(content, str):
        return content if content.isprintable() else "".join(map(escaped, content))
    if isinstance(content, dict):
        return {printable(key): printable(value) for key, value in content.items()}
    return [printable(item) for item in content] if isinstance(content, list) else content


def escaped(character: str) -> str:
    if character.isprintable() or character in LINE_CHARACTERS:
        return character
    return character.encode("unicode_escape").decode()
