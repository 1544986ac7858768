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
# that cannot change, `at_creation` those that only POST accepts, and `later` those that only PATCH
# accepts. Of all these, `times` are times, `sets` are lists without an order, and `unlimited` are
# those whose value 0 means none. `queries` select the objects of the list that exist. `secrets` are
# those that the appliance never shows.
Kind = namedtuple(
    "Kind",
    "name path identity changeable fixed at_creation later times sets unlimited queries secrets",
    defaults=((), (), (), (), (), (), (), ("",), ()),
)

# `field` is the option, `is_set` the field that says whether there is a secret. A change of the
# field `address` removes it. The option `resend` sends it also if there is one.
Secret = namedtuple("Secret", "field is_set address resend")


def connect(module):
    return Appliance(module.params["url"], module.params["token"], module.params["ca_file"])


def state_argument_spec(**options):
    """Return the argument spec of a module with `state`, the connection and the options."""
    spec = appliance_argument_spec()
    spec["state"] = {"type": "str", "choices": ["present", "absent"], "default": "present"}
    spec.update(options)
    return spec


def label_texts(options, params):
    """Return the options that are labels with their values as texts, as the appliance has them."""
    return {
        name: {key: str(value) for key, value in params[name].items()}
        for name, option in options.items()
        if option["type"] == "dict" and params[name] is not None
    }


def parse_time(text):
    return datetime.fromisoformat(text.replace("Z", "+00:00"))


def normal_time(text):
    """Return the time in UTC, or the text if it is no time with a zone."""
    try:
        time = parse_time(text)
    except (ValueError, TypeError):
        return text
    return time.astimezone(timezone.utc).isoformat() if time.tzinfo else text


def equal(kind, field, old, new):
    """Return whether the field of an object has the value of an option."""
    if field in kind.times:
        return normal_time(old) == normal_time(new)
    if field in kind.sets:
        return set(old) == set(new)
    return old == new or (old is None and (new == "" or (new == 0 and field in kind.unlimited)))


def describe(kind, row):
    """Return the fields of the object for the diff."""
    if not row:
        return {"state": "absent"}
    fields = [*kind.identity, *kind.changeable, *kind.fixed, *kind.later]
    fields += [secret.is_set for secret in kind.secrets]
    return {"state": "present", **{f: shown(kind, f, row[f]) for f in fields if f in row}}


def shown(kind, field, value):
    """Return the value of a field as the diff shows it, also if check mode has predicted it."""
    if field in kind.times:
        return normal_time(value)
    if field in kind.sets:
        return sorted(value)
    return 0 if value is None and field in kind.unlimited else value


def is_current(row):
    """Return whether the object is not a token that has expired."""
    return "expires_at" not in row or parse_time(row["expires_at"]) > datetime.now(timezone.utc)


def find(kind, appliance, params):
    """Return the objects that the options identify, the newest first. Some names are not unique."""
    rows = (r for query in kind.queries for r in appliance.items(kind.path, query))
    return [r for r in rows if is_current(r) and all(r[f] == params[f] for f in kind.identity)]


def differences(kind, row, params, fields):
    """Return the values of those options that the object does not have."""
    return {
        f: params[f]
        for f in fields
        if params[f] is not None and not equal(kind, f, row[f], params[f])
    }


def check_unset(params):
    given = [f for f in params.get("unset") or () if params[f] is not None]
    if given:
        raise ApplianceError(f"{', '.join(given)}: give a value or name it in unset, not both.")


def emptied(row, params):
    """Return the fields with a value that the option `unset` names, each with None."""
    return {f: None for f in params.get("unset") or () if row[f] is not None}


def is_sent(secret, row, params, changes):
    """Return whether the secret of the options goes to an object that exists."""
    value, is_set = params[secret.field], row[secret.is_set]
    if value is None:
        return False
    if value == "":
        return is_set
    return not is_set or secret.address in changes or params[secret.resend]


def predict(kind, row, changes):
    """Return the object after the changes, without its secrets."""
    after = {**row, **changes}
    for secret in kind.secrets:
        if secret.field in changes:
            after[secret.is_set] = bool(after.pop(secret.field))
        elif secret.address in changes:
            after[secret.is_set] = False
    return after


def update(kind, module, appliance, row, fields):
    """Set those of the fields that differ. Returns whether any does, and the object after it."""
    wanted = {**differences(kind, row, module.params, fields), **emptied(row, module.params)}
    sent = [s.field for s in kind.secrets if is_sent(s, row, module.params, wanted)]
    wanted.update({field: module.params[field] for field in sent})
    if not wanted:
        return False, row
    if module.check_mode:
        return True, predict(kind, row, wanted)
    path = f"{kind.path}/{row['id']}"
    return True, appliance.request("PATCH", path, wanted, version=row["version"])


def create(kind, module, appliance):
    """Create the object, and return it."""
    fields = [*kind.identity, *kind.changeable, *kind.fixed, *kind.at_creation]
    fields += [secret.field for secret in kind.secrets]
    body = {f: module.params[f] for f in fields if module.params[f] is not None}
    if module.check_mode:
        later = {f: module.params[f] for f in kind.later if module.params[f] is not None}
        return {**predict(kind, {}, body), **later}
    row = appliance.request("POST", kind.path, body)
    # The answer to a creation can hold a secret, which that to a change does not repeat.
    return {**row, **update(kind, module, appliance, row, kind.later)[1]}


def fixed_error(kind, params, names):
    """Return the error for values that cannot change."""
    remedy = "remove it with state=absent and create it again"
    if "replace" in params:
        remedy = f"set replace=true to delete the {kind.name} and create another"
    return ApplianceError(
        f"The {kind.name} exists with another value of {', '.join(sorted(names))}, which cannot"
        f" change; {remedy}, or give the existing value."
    )


def replace(kind, module, appliance, row):
    """Create another object, then delete this one. Returns the new object."""
    new = create(kind, module, appliance)
    remove(kind, module, appliance, [row])
    return new


def change(kind, module, appliance, row):
    """Set the changeable fields. Returns whether they change, and the object after the change.

    An object of which a fixed field differs is replaced if the option `replace` is set.
    """
    refused = differences(kind, row, module.params, kind.fixed)
    if refused and module.params.get("replace"):
        return True, replace(kind, module, appliance, row)
    if refused:
        raise fixed_error(kind, module.params, refused)
    return update(kind, module, appliance, row, [*kind.changeable, *kind.later])


def remove(kind, module, appliance, rows):
    """Remove the objects. Returns whether there are any, and an empty dictionary."""
    if not module.check_mode:
        for row in rows:
            appliance.request("DELETE", f"{kind.path}/{row['id']}", version=row.get("version"))
    return bool(rows), {}


def apply(kind, module, appliance, rows):
    """Bring the object to the state of the options. Returns whether it changes, and the object."""
    if module.params["state"] == "absent":
        return remove(kind, module, appliance, rows)
    if not rows:
        return True, create(kind, module, appliance)
    return change(kind, module, appliance, rows[0])


def manage(kind, options, prepare=None, settle=None, finish=None, **rules):
    """Run a module for objects of this kind. `rules` are those of AnsibleModule.

    `prepare` takes the appliance and the options, and returns options in the form in which the
    appliance returns them. `settle` takes the module, the appliance and the object, and returns
    whether it has changed the object further, and the object after it. `finish` takes the module,
    the appliance, the objects before the change and the object after it, and returns the latter.
    """
    module = AnsibleModule(
        argument_spec=state_argument_spec(**options), supports_check_mode=True, **rules
    )
    module.params.update(label_texts(options, module.params))
    appliance = connect(module)
    try:
        check_unset(module.params)
        if prepare is not None:
            module.params.update(prepare(appliance, module.params))
        rows = find(kind, appliance, module.params)
        before = describe(kind, rows[0] if rows else None)
        changed, row = apply(kind, module, appliance, rows)
        if settle is not None and module.params["state"] != "absent":
            settled, row = settle(module, appliance, row)
            changed = changed or settled
        if finish is not None:
            row = finish(module, appliance, rows, row)
    except ApplianceError as error:
        module.fail_json(msg=str(error), code=error.code)
    diff = {"before": before, "after": describe(kind, row)}
    module.exit_json(changed=changed, diff=diff, **{kind.name: row})
