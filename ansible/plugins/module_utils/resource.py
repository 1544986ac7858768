# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Creation, change and removal of an object of the appliance, for modules.

The options of a module have the names of the fields in the REST API.
"""

from collections import namedtuple
from datetime import datetime, timezone

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.busbar.pool.plugins.module_utils.appliance import (
    Appliance,
    ApplianceError,
    appliance_argument_spec,
)

# `identity` are the fields that find an object, `changeable` those that PATCH sets, `fixed` those
# that cannot change, of which `times` are times, `at_creation` those that only POST accepts, and
# `later` those that only PATCH accepts.
Kind = namedtuple(
    "Kind",
    "name path identity changeable fixed times at_creation later",
    defaults=((), (), (), (), ()),
)


def connect(module):
    return Appliance(module.params["url"], module.params["token"], module.params["ca_file"])


def state_argument_spec(**options):
    """Return the argument spec of a module with `state`, the connection and the options."""
    spec = appliance_argument_spec()
    spec["state"] = {"type": "str", "choices": ["present", "absent"], "default": "present"}
    spec.update(options)
    return spec


def parse_time(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def equal(kind, field, old, new):
    """Return whether the field of an object has the value of an option."""
    if field in kind.times:
        try:
            return parse_time(old) == parse_time(new)
        except (ValueError, TypeError):
            return False  # the appliance says what is wrong with the time
    return old == new or (new == "" and old is None)


def describe(kind, row):
    """Return the fields of the object for the diff."""
    if not row:
        return {"state": "absent"}
    fields = [*kind.identity, *kind.changeable, *kind.fixed, *kind.later]
    return {"state": "present", **{f: row[f] for f in fields if f in row}}


def is_current(row):
    """Return whether the object is not a token that has expired."""
    return "expires_at" not in row or parse_time(row["expires_at"]) > datetime.now(timezone.utc)


def find(kind, appliance, params):
    """Return the object that the options identify, or None."""
    rows = filter(is_current, appliance.items(kind.path))
    return next((r for r in rows if all(r[f] == params[f] for f in kind.identity)), None)


def differences(kind, row, params, fields):
    """Return the values of those options that the object does not have."""
    return {
        f: params[f]
        for f in fields
        if params[f] is not None and not equal(kind, f, row[f], params[f])
    }


def create(kind, module, appliance):
    """Create the object, and return it."""
    fields = [*kind.identity, *kind.changeable, *kind.fixed, *kind.at_creation]
    body = {f: module.params[f] for f in fields if module.params[f] is not None}
    if module.check_mode:
        later = {f: module.params[f] for f in kind.later if module.params[f] is not None}
        return {**body, **later}
    row = appliance.request("POST", kind.path, body)
    # The answer to a creation can hold a secret, which that to a change does not repeat.
    return {**row, **change(kind, module, appliance, row)[1]}


def change(kind, module, appliance, row):
    """Set the changeable fields. Returns whether they change, and the object after the change."""
    refused = differences(kind, row, module.params, kind.fixed)
    if refused:
        names = ", ".join(sorted(refused))
        raise ApplianceError(
            f"The {kind.name} exists with another value of {names}, which cannot change; remove it"
            " with state=absent and create it again, or give the existing value."
        )
    wanted = differences(kind, row, module.params, [*kind.changeable, *kind.later])
    if not wanted:
        return False, row
    if module.check_mode:
        return True, {**row, **wanted}
    path = f"{kind.path}/{row['id']}"
    return True, appliance.request("PATCH", path, wanted, version=row["version"])


def remove(kind, module, appliance, row):
    """Remove the object. Returns whether it existed, and an empty dictionary."""
    if row is not None and not module.check_mode:
        appliance.request("DELETE", f"{kind.path}/{row['id']}", version=row.get("version"))
    return row is not None, {}


def apply(kind, module, appliance, row):
    """Bring the object to the state of the options. Returns whether it changes, and the object."""
    if module.params["state"] == "absent":
        return remove(kind, module, appliance, row)
    if row is None:
        return True, create(kind, module, appliance)
    return change(kind, module, appliance, row)


def manage(kind, options, **rules):
    """Run a module for objects of this kind. `rules` are those of AnsibleModule."""
    module = AnsibleModule(
        argument_spec=state_argument_spec(**options), supports_check_mode=True, **rules
    )
    appliance = connect(module)
    try:
        row = find(kind, appliance, module.params)
        before = describe(kind, row)
        changed, row = apply(kind, module, appliance, row)
    except ApplianceError as error:
        module.fail_json(msg=str(error), code=error.code)
    diff = {"before": before, "after": describe(kind, row)}
    module.exit_json(changed=changed, diff=diff, **{kind.name: row})
