"""Reading of files of `busbar apply`: YAML documents, checked before anything is sent."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from remoting.cli import api as rest
from remoting.cli.apply_kinds import KINDS, Kind, Row

STANDARD_INPUT = Path("-")


@dataclass(frozen=True)
class Document:
    """The desired state of one object."""

    kind_name: str
    row: Row
    place: str
    """Number of the document and file, for messages."""

    @property
    def kind(self) -> Kind:
        return KINDS[self.kind_name]

    @property
    def title(self) -> str:
        return f"{self.kind_name} {self.kind.name_of(self.row)}"


def read_documents(paths: Sequence[Path]) -> list[Document]:
    """Return the documents of all files in the order of creation.

    Raises ApiError for an invalid document, and for a second one of the same object.
    """
    found = [document for path in paths for document in documents_in(path)]
    seen: dict[tuple[str, tuple[Any, ...]], Document] = {}
    for document in found:
        key = (document.kind_name, document.kind.key_of(document.row))
        if key in seen:
            raise invalid(document.place, f"{document.title} is in {seen[key].place}, too")
        seen[key] = document
    order = list(KINDS)
    return sorted(found, key=lambda document: order.index(document.kind_name))


def documents_in(path: Path) -> Iterator[Document]:
    import yaml

    name = "standard input" if path == STANDARD_INPUT else str(path)
    try:
        text = sys.stdin.read() if path == STANDARD_INPUT else path.read_text()
        given = [content for content in yaml.safe_load_all(text) if content is not None]
    except (OSError, yaml.YAMLError, UnicodeDecodeError, ValueError) as error:
        raise rest.ApiError(f"{name} cannot be read: {error}", rest.EXIT_USAGE) from None
    for n, content in enumerate(given, 1):
        yield document_of(content, f"document {n} of {name}")


def document_of(content: Any, place: str) -> Document:
    """Return a document with the values of JSON. Raises ApiError."""
    kind_name = content.get("kind") if isinstance(content, dict) else None
    if not isinstance(kind_name, str) or kind_name not in KINDS:
        raise invalid(place, f"kind must be one of {', '.join(KINDS)}")
    kind = KINDS[kind_name]
    row = {str(key): to_json_value(value) for key, value in content.items() if key != "kind"}
    for name in row:
        if name not in kind.fields:
            raise invalid(place, unknown_field(kind_name, kind, name))
    if missing := [name for name in kind.key if name not in row]:
        raise invalid(place, f"{kind_name} needs {', '.join(missing)}")
    return Document(kind_name, row, place)


def unknown_field(kind_name: str, kind: Kind, name: str) -> str:
    if similar := get_close_matches(name[:60], list(kind.fields), n=1):
        return f'{kind_name} has no field "{name}". Did you mean "{similar[0]}"?'
    return f'{kind_name} has no field "{name}", but {", ".join(kind.fields)}'


def invalid(place: str, message: str) -> rest.ApiError:
    text = f"{place}: {message}."
    return rest.ApiError(f"{text[:1].upper()}{text[1:]}", rest.EXIT_USAGE)


def to_json_value(value: Any) -> Any:
    """Return a datetime (YAML parses timestamps) as ISO 8601 text, any other value unchanged."""
    return value.isoformat().replace("+00:00", "Z") if isinstance(value, datetime) else value
