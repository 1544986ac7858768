"""Contract of the REST API: every line of docs/api-contract.txt must hold for the OpenAPI file.

`python -m tests.appliance.test_api_contract` adds new lines. Removing a line is a breaking change
and is done by hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import pytest
import yaml

from deploy.supervisor import ROOT

CONTRACT = ROOT / "docs" / "api-contract.txt"
Schema = dict[str, Any]


@cache
def parsed() -> Schema:
    found: Schema = yaml.load(
        (ROOT / "docs" / "openapi.yaml").read_text(),
        Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader),
    )
    return found


def api() -> Schema:
    """Return the OpenAPI document, which the caller may change."""
    return deepcopy(parsed())


def resolved(document: Schema, schema: Schema) -> Schema:
    while "$ref" in schema:
        schema = document["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    merged = dict(schema)
    for part in (resolved(document, part) for part in schema.get("allOf", [])):
        joined = {
            "properties": merged.get("properties", {}) | part.get("properties", {}),
            "required": [*merged.get("required", []), *part.get("required", [])],
        }
        merged |= part | {key: value for key, value in joined.items() if value}
    return merged


def fields(document: Schema, schema: Schema, place: str = "") -> Iterator[tuple[str, str, bool]]:
    """Place, type and whether it must be there, of everything in it."""
    schema = resolved(document, schema)
    for name, inner in schema.get("properties", {}).items():
        inside = resolved(document, inner)
        yield f"{place}{name}", str(inside.get("type", "any")), name in schema.get("required", [])
        yield from fields(document, inside, f"{place}{name}.")
    if "items" in schema:
        yield from fields(document, schema["items"], f"{place}[].")


def lines(document: Schema) -> Iterator[str]:
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            name = f"{method.upper()} {path}"
            yield name
            for p in operation.get("parameters", []):
                kind = resolved(document, p["schema"]).get("type", "any")
                yield f"{name} takes {p['in']} {p['name']}: {kind}"
            for media in operation.get("requestBody", {}).get("content", {}).values():
                yield from (
                    f"{name} takes {place}: {kind}"
                    for place, kind, _ in fields(document, media["schema"])
                )
            for status, answer in operation["responses"].items():
                if status >= "400":
                    continue  # all refusals are of one shape, which stands at the end
                yield f"{name} answers {status}"
                for media in answer.get("content", {}).values():
                    yield from (
                        f"{name} {status} has {place}: {kind}"
                        for place, kind, _ in fields(document, media["schema"])
                    )
    yield from (
        f"problem has {place}: {kind}"
        for place, kind, _ in fields(document, document["components"]["schemas"]["Problem"])
    )


def demands(document: Schema) -> Iterator[str]:
    """Yield the fields that a request must have: one more breaks clients that do not send it."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            needed = [
                f"{p['in']} {p['name']}"
                for p in operation.get("parameters", [])
                if p.get("required")
            ]
            for media in operation.get("requestBody", {}).get("content", {}).values():
                needed += [
                    place
                    for place, _, required in fields(document, media["schema"])
                    if required and "." not in place
                ]
            yield from (f"{method.upper()} {path} demands {what}" for what in dict.fromkeys(needed))


def written() -> set[str]:
    return {line for line in CONTRACT.read_text().splitlines() if line and not line.startswith("#")}


def broken(contract: set[str], document: Schema) -> list[str]:
    promised = {line for line in contract if " demands " not in line}
    demanded = {
        line
        for line in demands(document)
        if line not in contract and line.partition(" demands ")[0] in contract
    }
    return sorted(
        [f"gone: {line}" for line in promised - set(lines(document))]
        + [f"new: {line}" for line in demanded]
    )


def test_nothing_that_clients_rely_on_has_changed() -> None:
    assert not broken(written(), api())


def test_what_is_new_is_promised_from_now_on() -> None:
    missing = {*lines(api()), *demands(api())} - written()
    assert not missing, (
        f"{sorted(missing)[:3]} …: run `.venv/bin/python -m tests.appliance.test_api_contract`"
    )


@pytest.mark.parametrize(
    "change", ["an operation goes", "a field goes", "a type changes", "a demand comes"]
)
def test_a_breaking_change_is_noticed(change: str) -> None:
    document = api()
    if change == "an operation goes":
        del document["paths"]["/api/v1/nodes"]["get"]
    elif change == "a field goes":
        del document["components"]["schemas"]["Node"]["properties"]["labels"]
    elif change == "a type changes":
        document["components"]["schemas"]["Gpu"]["properties"]["memory_bytes"]["type"] = "string"
    else:
        document["components"]["schemas"]["PoolRequest"]["required"].append("policies")
    assert broken(written(), document)


def main() -> None:
    head = (
        [line for line in CONTRACT.read_text().splitlines() if line.startswith("#")]
        if CONTRACT.exists()
        else ["# What clients of the REST API rely on."]
    )
    kept = written() if CONTRACT.exists() else set()
    CONTRACT.write_text("\n".join([*head, *sorted({*kept, *lines(api()), *demands(api())})]) + "\n")


if __name__ == "__main__":
    main()
