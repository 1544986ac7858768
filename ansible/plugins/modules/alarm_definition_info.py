#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: alarm_definition_info
short_description: List alarm definitions of a Busbar appliance
version_added: 0.2.0
description:
  - Lists those alarm definitions that the API token may see.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
options:
  name:
    description: "List only objects with this value. Name of the definition."
    type: str
  enabled:
    description: "List only objects with this value. Whether it is evaluated."
    type: bool
  severity:
    description: "List only objects with this value. Severity of its alarms."
    type: str
    choices: [info, warning, critical]
attributes:
  check_mode:
    support: full
    description: Changes nothing.
"""

EXAMPLES = r"""
- name: List alarm definitions that are disabled
  busbar.pool.alarm_definition_info:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    enabled: false
"""

RETURN = r"""
alarm_definitions:
  description: The alarm definitions, as the REST API returns them.
  returned: always
  type: list
  elements: dict
"""

from ansible_collections.busbar.pool.plugins.module_utils.listing import list_objects

OPTIONS = {
    "name": {"type": "str"},
    "enabled": {"type": "bool"},
    "severity": {"type": "str", "choices": ["info", "warning", "critical"]},
}


def main():
    list_objects("alarm_definitions", "alarm-definitions", OPTIONS)


if __name__ == "__main__":
    main()
