"""Reference pages of the documentation: CLI, REST API, errors and settings.

`docs/site_hooks.py` adds them to the site.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

import typer
import yaml

from appliance.api.errors import Code
from appliance.environment import Environment
from deploy.error_pages import codes_in, error_list, error_page
from remoting.cli.main import app

ROOT = Path(__file__).resolve().parents[1]
HIDDEN_OPTIONS = {"--help", "--install-completion", "--show-completion"}
METHODS = ("get", "post", "put", "patch", "delete")
Json = dict[str, Any]


def table(header: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """Return a Markdown table, or an empty string without rows."""
    if not rows:
        return ""
    lines = [header, ("---",) * len(header), *rows]
    return "".join("| " + " | ".join(map(escape, line)) + " |\n" for line in lines) + "\n"


def escape(text: str) -> str:
    """Return text for a table cell: one line, without a bare `|`."""
    return " ".join(text.split()).replace("|", "\\|")


def cli_page() -> str:
    root = typer.main.get_command(app)
    text = "# Commands\n\n"
    text += (
        "`busbar --help` and `busbar COMMAND --help` print the same descriptions. Options of "
        "`busbar` itself precede the command.\n\n"
    )
    text += "".join(command_section(["busbar"], root))
    text += "## Exit codes\n\n" + table(
        ("code", "meaning"),
        [
            ("0", "success"),
            ("1", "other error"),
            ("2", "usage error or invalid value"),
            ("3", "object not found"),
            ("4", "conflict with the state of an object"),
            ("5", "not signed in, or permission denied"),
            ("6", "timeout"),
            ("126", "`busbar run`: program cannot be executed"),
            ("127", "`busbar run`: program not found"),
            ("other", "`busbar run`: the program's exit code, or 128 + signal"),
        ],
    )
    return text.rstrip() + "\n"


def command_section(path: list[str], command: Any) -> Iterator[str]:
    """Yield the sections of a command and its subcommands."""
    level = "##" if len(path) <= 2 else "###"
    yield f"{level} {' '.join(path)}\n\n{sentence(command.help or '')}"
    context = command.context_class(command, info_name=" ".join(path))
    usage = " ".join([*path, *command.collect_usage_pieces(context)])
    usage = re.sub(r"\{(\w+)\}", lambda match: match[1].upper(), usage)
    yield f"```\n{usage}\n```\n\n"
    yield table(("argument or option", "description"), parameter_rows(command))
    for name, sub in sorted(getattr(command, "commands", {}).items()):
        yield from command_section([*path, name], sub)


def sentence(text: str) -> str:
    text = " ".join(text.split())
    return f"{text}{'' if text.endswith('.') or not text else '.'}\n\n" if text else ""


def parameter_rows(command: Any) -> list[tuple[str, ...]]:
    rows: list[tuple[str, ...]] = []
    for p in command.params:
        if not HIDDEN_OPTIONS.isdisjoint(p.opts):
            continue
        is_argument = p.param_type_name == "argument"
        names = [p.metavar or p.name.upper()] if is_argument else [*p.opts, *p.secondary_opts]
        rows.append((", ".join(f"`{name}`" for name in names), describe_parameter(p)))
    return rows


def describe_parameter(parameter: Any) -> str:
    help_text = getattr(parameter, "help", None) or ""
    notes = []
    low, high = getattr(parameter, "min", None), getattr(parameter, "max", None)
    if low is not None:
        notes.append(f"Minimum: {low:g}." if high is None else f"Range: {low:g} to {high:g}.")
    default = parameter.default
    if default not in (None, "", False, True, ()) and not callable(default):
        notes.append(f"Default: `{default}`.")
    return " ".join([help_text, *notes]).strip()


def rest_page(document: Json) -> str:
    text = "# REST API\n\n"
    text += (
        "All paths are relative to the appliance. `/api/docs` on the appliance is an interactive "
        "version of this page, `/api/schema` the OpenAPI document. Errors are described in the "
        "[error reference](errors.md).\n\n"
    )
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in METHODS:
            if method in operations:
                section = operation_section(document, path, method, operations[method])
                for tag in operations[method].get("tags", ["other"])[:1]:
                    by_tag.setdefault(tag, []).append(section)
    for tag in sorted(by_tag):
        text += f"## {tag}\n\n" + "".join(by_tag[tag])
    text += "## Schemas\n\n"
    for name, schema in sorted(document["components"]["schemas"].items()):
        text += schema_section(name, schema)
    return text.rstrip() + "\n"


def operation_section(document: Json, path: str, method: str, operation: Json) -> str:
    text = f"### {method.upper()} {path} {{ #{operation['operationId']} }}\n\n"
    text += sentence(operation.get("summary", "")) + paragraph(operation.get("description", ""))
    rows = [
        (f"`{p['name']}`", p["in"], type_name(p["schema"]), note(p, p["schema"]))
        for p in operation.get("parameters", [])
    ]
    text += table(("parameter", "in", "type", "description"), rows)
    if body := operation.get("requestBody"):
        text += f"Request body: {content_type(body)}.\n\n"
        text += request_example(body)
    for status, response in operation["responses"].items():
        if status < "400":
            text += f"Response `{status}`: {content_type(response) or 'empty'}. "
            text += f"{response.get('description', '')}{header_names(response)}".rstrip() + "\n\n"
    codes = [code for code in Code if code in codes_in(document, operation)]
    links = ", ".join(f"[{code}](errors/{code}.md)" for code in codes)
    return text + (f"Errors: {links}.\n\n" if links else "")


def request_example(body: Json) -> str:
    for media in body["content"].values():
        if "example" in media:
            text = json.dumps(media["example"], indent=2, ensure_ascii=False)
            return f"```json\n{text}\n```\n\n"
    return ""


def header_names(response: Json) -> str:
    names = [f"`{name}`" for name in response.get("headers", {}) if not name.startswith("Busbar-")]
    return f" Headers: {', '.join(names)}." if names else ""


def paragraph(text: str) -> str:
    return f"{text.strip()}\n\n" if text.strip() else ""


def content_type(holder: Json) -> str:
    for media, content in holder.get("content", {}).items():
        kind = type_name(content.get("schema", {}))
        return kind if media == "application/json" else f"{kind} (`{media}`)"
    return ""


def type_name(schema: Json) -> str:
    """Return a short name of a schema, with links to named ones."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#schema-{name.lower()})"
    for key in ("allOf", "oneOf", "anyOf"):
        if key in schema:
            names = [type_name(s) for s in schema[key]]
            return " or ".join(n for n in names if n != "object (empty)") or "any"
    if schema.get("type") == "array":
        return f"list of {type_name(schema.get('items', {}))}"
    if "additionalProperties" in schema and isinstance(schema["additionalProperties"], dict):
        return f"map of {type_name(schema['additionalProperties'])}"
    kind = str(schema.get("type", "any"))
    return f"{kind} ({schema['format']})" if "format" in schema else kind


def note(holder: Json, schema: Json) -> str:
    """Return description and constraints of a parameter or field."""
    notes = [str(holder.get("description", "")).strip()]
    if holder.get("required") is True:
        notes.append("Required.")
    if "enum" in schema:
        values = ", ".join(f"`{v}`" for v in schema["enum"] if v not in ("", None))
        notes.append(f"One of {values}.")
    if "minimum" in schema or "maximum" in schema:
        low, high = schema.get("minimum"), schema.get("maximum")
        bounds = f"{low:g} to {high:g}" if None not in (low, high) else f"from {low:g}"
        if low is None:
            bounds = f"up to {high:g}"
        notes.append(f"Range: {bounds}.")
    if "default" in schema:
        notes.append(f"Default: `{schema['default']}`.")
    if schema.get("readOnly"):
        notes.append("Read-only.")
    if schema.get("nullable"):
        notes.append("Can be null.")
    return " ".join(n for n in notes if n)


def schema_section(name: str, schema: Json) -> str:
    text = f"### {name} {{ #schema-{name.lower()} }}\n\n" + paragraph(schema.get("description", ""))
    if "enum" in schema:
        if "*" not in schema.get("description", ""):
            text += "One of " + ", ".join(f"`{v}`" for v in schema["enum"]) + ".\n\n"
        return text
    if "allOf" in schema:
        listed, schema = schema["allOf"]
        text += f"The fields of {type_name(listed)}, and:\n\n"
    required = schema.get("required", [])
    rows: list[tuple[str, ...]] = []
    for field, value in schema.get("properties", {}).items():
        holder = {"description": value.get("description", ""), "required": field in required}
        rows.append((f"`{field}`", type_name(value), note(holder, value)))
    if not rows and "enum" not in schema:
        text += f"{type_name(schema)}\n\n"
    return text + table(("field", "type", "description"), rows)


def settings_page() -> str:
    prefix = str(Environment.model_config["env_prefix"])
    rows = [
        (f"`{prefix}{name.upper()}`", describe_default(field.default), field.description or "")
        for name, field in Environment.model_fields.items()
    ]
    return (
        "# Settings of the appliance\n\n"
        "Environment variables, read at the start. Those that also are a field of "
        "[the settings in REST](rest.md#settings_retrieve) give its default.\n\n"
        + table(("variable", "default", "description"), rows).rstrip()
        + "\n"
    )


def describe_default(value: object) -> str:
    if isinstance(value, Path) and value.is_relative_to(ROOT):
        return f"`{value.relative_to(ROOT)}` in the checkout"
    return f"`{value:g}`" if isinstance(value, float) else f"`{value}`" if value else ""


@cache
def document() -> Json:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found: Json = yaml.load((ROOT / "docs" / "openapi.yaml").read_text(), Loader=loader)  # noqa: S506 - a safe loader
    return found


def page_of_error(code: Code) -> str:
    return error_page(code, document())


PAGES: dict[str, Callable[[], str]] = {
    "cli.md": cli_page,
    "rest.md": lambda: rest_page(document()),
    "errors.md": error_list,
    "settings.md": settings_page,
    **{f"errors/{code}.md": partial(page_of_error, code) for code in Code},
}
