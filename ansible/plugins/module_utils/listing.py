# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Lists of objects of the appliance, for modules that change nothing."""

from ansible.module_utils.basic import AnsibleModule
from ansible_collections.busbar.pool.plugins.module_utils.appliance import (
    ApplianceError,
    appliance_argument_spec,
)
from ansible_collections.busbar.pool.plugins.module_utils.resource import connect


def list_objects(key, path, filters, states=None, extend=None):
    """Run a module that returns as `key` the objects that have the values of the filters.

    `states` is the option for the states of the objects. `extend` takes the appliance and an
    object, and returns the object with more fields.
    """
    spec = {**appliance_argument_spec(), **filters, **({"states": states} if states else {})}
    module = AnsibleModule(argument_spec=spec, supports_check_mode=True)
    wanted = {f: module.params[f] for f in filters if module.params[f] is not None}
    queries = [f"state={state}" for state in module.params["states"]] if states else [""]
    appliance = connect(module)
    try:
        found = [row for query in queries for row in appliance.items(path, query)]
        rows = [row for row in found if all(row[f] == value for f, value in wanted.items())]
        if extend is not None:
            rows = [extend(appliance, row) for row in rows]
    except ApplianceError as error:
        module.fail_json(msg=str(error), code=error.code)
    module.exit_json(changed=False, **{key: rows})
