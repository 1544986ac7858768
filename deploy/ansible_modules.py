"""Text of the modules of Ansible: their options are the fields of the REST API.

`module` is the declaration of ansible/modules.yml, `form` the fields of the collection.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pprint import pformat
from typing import Any

import yaml

from deploy.api_fields import Form, Json

WIDTH = 96
MAX_CHOICES = 10
"""Longer lists of values, such as privileges, grow with the appliance, which checks them."""
TYPES = {
    "array": "list",
    "boolean": "bool",
    "integer": "int",
    "number": "float",
    "object": "dict",
    "string": "str",
}
LIST = {"type": "list", "elements": "str"}
LITERAL_OR_FIELD = re.compile(r"`([^`]+)`|\b[a-z]+(?:_[a-z]+)+\b")
CONNECTION = {
    "url": "https://busbar.example:8443",
    "token": "{{ busbar_token }}",
    "ca_file": "busbar-ca.pem",
}
IMPORT = "from ansible_collections.busbar.pool.plugins.module_utils."
TEXT = '''#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
{documentation}"""

EXAMPLES = r"""
{examples}"""

RETURN = r"""
{result}"""

{code}

if __name__ == "__main__":
    main()
'''


class Indented(yaml.SafeDumper):
    """Writes lists with an indent, as ansible-lint asks for."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)


def text_of(content: object) -> str:
    return yaml.dump(content, Dumper=Indented, sort_keys=False, width=WIDTH, allow_unicode=True)


def object_module(name: str, module: Json, form: Form) -> str:
    """Return the module that creates, changes and deletes objects."""
    options = object_options(name, module, form)
    noun = noun_of(name, module)
    example = module["examples"][0][name]
    result = {
        "description": f"The {noun} after the change; empty if it is absent.",
        "returned": "always",
        "type": "dict",
        "sample": {option: value for option, value in example.items() if option in form.shown},
    }
    documentation = {
        "module": name,
        "short_description": f"Manage {noun}s of a Busbar appliance",
        "version_added": "0.2.0",
        "description": module["description"],
        "author": ["The Busbar developers (@busbar)"],
        "extends_documentation_fragment": ["busbar.pool.appliance", "busbar.pool.resource"],
        "options": without("no_log", options),
    }
    return TEXT.format(
        documentation=text_of(documentation),
        examples="\n".join(text_of([task(one)]) for one in module["examples"]),
        result=text_of({name: result}),
        code="\n".join(object_code(name, module, form, options)),
    )


def info_module(name: str, module: Json, form: Form | None) -> str:
    """Return the module that lists objects."""
    info, noun, key = module.get("info", {}), noun_of(name, module), f"{name}s"
    filters = info_filters(name, module, form)
    options = {
        option: found | {"description": "List only objects with this value. " + first(found)}
        for option, found in filters.items()
    }
    states = {"states": LIST | info["states"]} if "states" in info else {}
    result = {
        "description": info.get("returns", f"The {noun}s, as the REST API returns them."),
        "returned": "always",
        "type": "list",
        "elements": "dict",
    }
    documentation = {
        "module": f"{name}_info",
        "short_description": f"List {noun}s of a Busbar appliance",
        "version_added": "0.2.0",
        "description": [f"Lists those {noun}s that the API token may see."],
        "author": ["The Busbar developers (@busbar)"],
        "extends_documentation_fragment": ["busbar.pool.appliance"],
        "options": without("no_log", options | states),
        "attributes": {"check_mode": {"support": "full", "description": "Changes nothing."}},
    }
    examples = info.get("examples", [{"name": f"List {noun}s", f"{name}_info": {}}])
    return TEXT.format(
        documentation=text_of(documentation),
        examples="\n".join(text_of([task(one)]) for one in examples),
        result=text_of({key: result}),
        code="\n".join(info_code(key, info, options, states)),
    )


def noun_of(name: str, module: Json) -> str:
    return str(module.get("noun", name.replace("_", " ")))


def task(example: Json) -> Json:
    """Return a task, with the full name of its module and the connection."""
    found = {}
    for key, value in example.items():
        if isinstance(value, dict):
            found[f"busbar.pool.{key}"] = CONNECTION | value
        else:
            found[key] = value
    return found


def keys_of(module: Json) -> list[str]:
    return [*module.get("keys", ["name"]), *module.get("optional_keys", [])]


def object_options(name: str, module: Json, form: Form) -> dict[str, Json]:
    """Return the options of a module with their descriptions, those of the key first."""
    given = module.get("options", {})
    names = list(dict.fromkeys([*keys_of(module), *form.fields, *given]))
    options = {}
    for option in names:
        found = option_of(form.fields[option], names) if option in form.fields else {}
        found |= given.get(option, {})
        if option in module.get("keys", ["name"]) and "default" not in found:
            found["required"] = True
        if found["description"] == "Name.":
            found["description"] = f"Name of the {noun_of(name, module)}."
        options[option] = found
    return options | unset_option(form)


def unset_option(form: Form) -> dict[str, Json]:
    """Return the option that empties numbers, if the module has such: null omits an option."""
    numbers = [f for f, s in form.fields.items() if f in form.changed and is_clearable(f, s)]
    text = "Numbers to remove from an existing object."
    return {"unset": LIST | {"description": text, "choices": numbers}} if numbers else {}


def option_of(schema: Json, names: list[str]) -> Json:
    """Return an option with the type and the description of a field."""
    kinds = schema["type"] if isinstance(schema["type"], list) else [schema["type"]]
    text = schema["description"]
    if schema.get("default") not in (None, ""):
        text += f" `{str(schema['default']).lower()}` if omitted."
    found: Json = {"description": marked_up(text, names), "type": TYPES[kinds[0]]}
    if found["type"] == "list":
        found["elements"] = TYPES[schema["items"]["type"]]
    values = [value for value in schema.get("items", schema).get("enum", ()) if value]
    if 0 < len(values) <= MAX_CHOICES:
        found["choices"] = values
    if schema.get("writeOnly"):
        found["no_log"] = True
    return found


def marked_up(text: str, options: list[str]) -> str:
    """Mark values, commands and options in a description of the REST API."""

    def mark(found: re.Match[str]) -> str:
        if found[1] is not None:
            return f"C({found[1]})" if " " in found[1] else f"V({found[1]})"
        return f"O({found[0]})" if found[0] in options else found[0]

    return LITERAL_OR_FIELD.sub(mark, text)


def first(option: Json) -> str:
    """Return the first sentence of a description."""
    text = option["description"]
    return str(text if isinstance(text, str) else text[0]).partition(". ")[0].rstrip(".") + "."


def without(key: str, options: dict[str, Json]) -> dict[str, Json]:
    return {
        name: {k: value for k, value in option.items() if k != key}
        for name, option in options.items()
    }


def python(content: object) -> str:
    return pformat(content, width=WIDTH, sort_dicts=False)


def info_filters(name: str, module: Json, form: Form | None) -> dict[str, Json]:
    """Return the options that select objects: the keys, and those that the declaration names."""
    info = module.get("info", {})
    if form is None:
        return dict(info["options"])
    known = without("default", without("required", object_options(name, module, form)))
    names = [*keys_of(module), *info.get("filters", ())]
    more: dict[str, Json] = info.get("options", {})
    return {option: known[option] for option in names} | more


def object_code(name: str, module: Json, form: Form, options: dict[str, Json]) -> Iterator[str]:
    hooks = module.get("hooks", [])
    if hooks:
        yield f"{IMPORT}{name} import {', '.join(sorted(hooks))}"
    names = ["Kind", *(["Secret"] if "secrets" in module else []), "manage"]
    yield f"{IMPORT}resource import {', '.join(names)}\n"
    yield f"KIND = Kind(\n    {name!r},\n    {name.replace('_', '-') + 's'!r},"
    parts = parts_of(module, form)
    yield from (f"    {part}={fields!r}," for part, fields in parts.items() if fields)
    secrets = ", ".join(f"Secret(*{secret!r})" for secret in module.get("secrets", ()))
    yield f"    secrets=[{secrets}],\n)" if secrets else ")"
    yield f"OPTIONS = {python(without('description', options))}\n\n"
    rules = {**module.get("rules", {}), **needed_to_create(parts, form)}
    more = [f"{rule}={value!r}" for rule, value in rules.items()]
    yield "def main():"
    yield f"    manage({', '.join(['KIND', 'OPTIONS', *(f'{h}={h}' for h in hooks), *more])})\n"


def parts_of(module: Json, form: Form) -> dict[str, list[str]]:
    """Return the fields by what can be done with them, as the type Kind of the modules names it."""
    keys, uncompared = keys_of(module), module.get("at_creation", [])
    others = [f for f in form.fields if f not in keys and not form.fields[f].get("writeOnly")]
    fixed = [f for f in others if f not in form.changed]
    hidden = [f for f in fixed if f not in form.shown or f in uncompared]
    return {
        "identity": keys,
        "changeable": [f for f in others if f in form.changed & form.created],
        "fixed": [f for f in fixed if f not in hidden],
        "at_creation": hidden,
        "later": [f for f in others if f not in form.created],
        "times": [f for f in others if form.fields[f].get("format") == "date-time"],
        "sets": module.get("sets", []),
        "unlimited": [f for f in others if is_unlimited(f, form.fields[f])],
        "queries": module.get("queries", []),
    }


def is_unlimited(name: str, schema: Json) -> bool:
    """Return whether 0 is a period without an end, which the appliance shows as null."""
    return name.endswith("_seconds") and "null" in schema["type"] and schema["minimum"] == 0


def is_clearable(name: str, schema: Json) -> bool:
    """Return whether a number may be empty. A period without an end is 0 instead."""
    is_nullable_number = schema["type"] in (["integer", "null"], ["number", "null"])
    return is_nullable_number and not name.endswith("_seconds")


def needed_to_create(parts: dict[str, list[str]], form: Form) -> Json:
    """Return the rule for fields that a new object needs and that cannot change."""
    needed = [field for field in parts["fixed"] if field in form.required]
    return {"required_if": [("state", "present", needed)]} if needed else {}


def info_code(
    key: str, info: Json, options: dict[str, Json], states: dict[str, Json]
) -> Iterator[str]:
    extend = info.get("extend", "")
    yield f"{IMPORT}listing import list_objects"
    if extend:
        yield f"{IMPORT}{extend.replace('.', ' import ')}"
    yield f"\nFILTERS = {python(without('description', options))}"
    if states:
        yield f"STATES = {python(without('description', states)['states'])}"
    more = ["states=STATES"] if states else []
    more += [f"extend={extend.rpartition('.')[2]}"] if extend else []
    arguments = ", ".join([repr(key), repr(key.replace("_", "-")), "FILTERS", *more])
    yield "\n\ndef main():"
    yield f"    list_objects({arguments})\n"
