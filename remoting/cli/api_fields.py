"""The fields that requests of the REST API set, as the OpenAPI document describes them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import busbar_client

Schema = dict[str, Any]
FORMS = Path(busbar_client.__file__).with_name("fields.json")


@cache
def forms() -> dict[str, Schema]:
    found: dict[str, Schema] = json.loads(FORMS.read_text())
    return found


def fields_of(collection: str, *without: str) -> dict[str, Schema]:
    """Return the JSON schemas of the fields of a collection such as `pools`, by their names."""
    properties = forms()[collection]["properties"]
    return {name: schema for name, schema in properties.items() if name not in without}


def readable_fields_of(collection: str, *without: str) -> dict[str, Schema]:
    """Return the fields that responses have, too: a secret is only set."""
    fields = fields_of(collection, *without)
    return {name: schema for name, schema in fields.items() if not schema.get("writeOnly")}


def required_of(collection: str) -> list[str]:
    """Return the fields that a new object needs."""
    found: list[str] = forms()[collection]["required"]
    return found
