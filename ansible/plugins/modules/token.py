#!/usr/bin/python
# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)


DOCUMENTATION = r"""
module: token
short_description: Manage an API token of a Busbar appliance
version_added: 0.2.0
description:
  - Creates and revokes API tokens of service accounts.
  - The secret is returned only when the token is created, as RV(token.token). Set
    C(no_log=true) on the task.
  - O(scopes), O(networks) and O(lifetime_seconds) apply when the token is created. To
    change them, revoke the token and create it again.
  - A token that has expired counts as absent.
author:
  - The Busbar developers (@busbar)
extends_documentation_fragment:
  - busbar.pool.appliance
  - busbar.pool.resource
options:
  name:
    description: "What uses the token, such as V(ci)."
    type: str
    required: true
  user:
    description: "Name of the service account."
    type: str
    required: true
  scopes:
    description: "Privileges that the token may use, or names of built-in roles."
    type: list
    elements: str
  networks:
    description: "Networks from which the token is valid, such as V(10.0.0.0/8)."
    type: list
    elements: str
  lifetime_seconds:
    description: "Time until the token ends, at least 60 seconds."
    type: int
"""

EXAMPLES = r"""
- name: Create an API token
  busbar.pool.token:
    url: https://busbar.example:8443
    token: "{{ busbar_token }}"
    ca_file: busbar-ca.pem
    user: ci
    name: pipeline
    lifetime_seconds: 86400
  no_log: true
  register: created
"""

RETURN = r"""
token:
  description: The API token after the change; empty if it is absent.
  returned: always
  type: dict
  sample: {"name": "pipeline", "user": "ci", "token": "VALUE_SPECIFIED_IN_NO_LOG_PARAMETER"}
"""

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

KIND = Kind(
    "token",
    "tokens",
    identity=["user", "name"],
    at_creation=["scopes", "networks", "lifetime_seconds"],
)
OPTIONS = {
    "name": {"type": "str", "required": True},
    "user": {"type": "str", "required": True},
    "scopes": {"type": "list", "elements": "str"},
    "networks": {"type": "list", "elements": "str"},
    "lifetime_seconds": {"type": "int"},
}


def main():
    manage(KIND, OPTIONS)


if __name__ == "__main__":
    main()
