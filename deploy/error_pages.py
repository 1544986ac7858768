"""Pages of the error reference: a list, and a page for each code, which problems link to."""

from __future__ import annotations

import json
from typing import Any

from appliance.api.error_descriptions import DESCRIPTIONS, first_sentence, problem_example
from appliance.api.errors import STATUS, Code
from remoting.cli.api import exit_code_of

Json = dict[str, Any]
METHODS = ("get", "post", "put", "patch", "delete")


def error_list() -> str:
    rows = [
        f"| [`{code}`](errors/{code}.md) | {STATUS[code]} | {first_sentence(code)} |\n"
        for code in Code
    ]
    return (
        "# Errors\n\n"
        "The REST API reports errors as problem documents (RFC 9457, `application/problem+json`). "
        "`code` is stable; `type` is the URL of the page of the code; `detail` describes the "
        "specific error. Tasks report errors with the same codes.\n\n"
        "| code | status | meaning |\n| --- | --- | --- |\n" + "".join(rows)
    )


def error_page(code: Code, document: Json) -> str:
    meaning, remedy = DESCRIPTIONS[code]
    example = json.dumps(problem_example(code), indent=2, ensure_ascii=False)
    text = (
        f"# {code}\n\nStatus {STATUS[code]}. {meaning}\n\n"
        f"## What to do\n\n{remedy}\n\n"
        f"## Example\n\n```json\n{example}\n```\n\n"
        f"`busbar` ends with exit code {exit_code_of(STATUS[code])}.\n\n"
    )
    return (text + operations_section(code, document)).rstrip() + "\n"


def operations_section(code: Code, document: Json) -> str:
    """Return the operations that respond with a code, unless all or none do."""
    total, found = 0, []
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method not in operations:
                continue
            total += 1
            if code in codes_in(document, operations[method]):
                link = f"../rest.md#{operations[method]['operationId']}"
                found.append(f"- [{method.upper()} {path}]({link})\n")
    if not found:
        return ""
    if len(found) > 0.8 * total:
        return "Nearly all operations respond with it.\n"
    return "## Operations that respond with it\n\n" + "".join(found)


def codes_in(document: Json, operation: Json) -> set[str]:
    """Return the error codes of an operation of the OpenAPI document."""
    found: set[str] = set()
    for status, response in operation["responses"].items():
        if status >= "400" and "$ref" in response:  # others are of the HTTP server, without a code
            component = response["$ref"].rpartition("/")[2]
            content = document["components"]["responses"][component]["content"]
            found |= set(content["application/problem+json"]["examples"])
    return found
