#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: allocation_info
short_description: List allocations of a Busbar appliance
version_added: 0.2.0
description:
  - Lists those allocations that the API token may see.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
options:
  name:
    description: "List only objects with this value. Name of the allocation."
    type: str
  project:
    description: "List only objects with this value. Name of the project."
    type: str
  pool:
    description: "List only objects with this value. Name of the requested pool."
    type: str
  owner:
    description: "List only objects with this value. Name of the owner."
    type: str
  states:
    description: List only allocations in these states. The default omits those that have ended.
    type: list
    elements: str
    choices: [queued, preparing, active, suspended, releasing, released, failed]
    default: [queued, preparing, active, suspended, releasing]
attributes:
  check_mode:
    support: full
    description: Changes nothing.
"""

EXAMPLES = r"""
- name: List active allocations of a project
  busbar.pool.allocation_info:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    project: vision
    states: [active]
"""

RETURN = r"""
allocations:
  description: The allocations, as the REST API returns them.
  returned: always
  type: list
  elements: dict
"""

from ansible_collections.busbar.pool.plugins.module_utils.listing import list_objects

FILTERS = {
    "name": {"type": "str"},
    "project": {"type": "str"},
    "pool": {"type": "str"},
    "owner": {"type": "str"},
}
PRESENT = ["queued", "preparing", "active", "suspended", "releasing"]
STATES = {
    "type": "list",
    "elements": "str",
    "choices": [*PRESENT, "released", "failed"],
    "default": PRESENT,
}


def queries(params):
    return [f"state={state}" for state in params["states"]]


def main():
    list_objects("allocations", "allocations", FILTERS, options={"states": STATES}, queries=queries)


if __name__ == "__main__":
    main()
