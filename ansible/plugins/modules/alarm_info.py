#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: alarm_info
short_description: List alarms of a Busbar appliance
version_added: 0.2.0
description:
  - Lists those alarms that the API token may see.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
options:
  name:
    description: "List only objects with this value. Name of the alarm definition."
    type: str
  severity:
    description: "List only objects with this value. Severity of the alarm."
    type: str
    choices: [info, warning, critical]
  object_kind:
    description: "List only objects with this value. Kind of the object."
    type: str
    choices: [appliance, node, gpu, allocation]
  object_name:
    description: "List only objects with this value. Name of the object."
    type: str
  states:
    description: List only alarms in these states. The default omits those that are cleared.
    type: list
    elements: str
    choices: [active, acknowledged, cleared]
    default: [active, acknowledged]
attributes:
  check_mode:
    support: full
    description: Changes nothing.
"""

EXAMPLES = r"""
- name: List critical alarms that are not acknowledged
  busbar.pool.alarm_info:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    severity: critical
    states: [active]
"""

RETURN = r"""
alarms:
  description: The alarms, as the REST API returns them.
  returned: always
  type: list
  elements: dict
"""

from ansible_collections.busbar.pool.plugins.module_utils.listing import list_objects

FILTERS = {
    "name": {"type": "str"},
    "severity": {"type": "str", "choices": ["info", "warning", "critical"]},
    "object_kind": {"type": "str", "choices": ["appliance", "node", "gpu", "allocation"]},
    "object_name": {"type": "str"},
}
STATES = {
    "type": "list",
    "elements": "str",
    "choices": ["active", "acknowledged", "cleared"],
    "default": ["active", "acknowledged"],
}


def queries(params):
    return [f"state={state}" for state in params["states"]]


def main():
    list_objects("alarms", "alarms", FILTERS, options={"states": STATES}, queries=queries)


if __name__ == "__main__":
    main()
