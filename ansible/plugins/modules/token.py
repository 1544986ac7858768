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
  - Scopes and networks of a token cannot change. If O(scopes) or O(networks) differ from
    those of the token, the module fails, or replaces the token if O(replace=true).
  - O(lifetime_seconds) applies when the token is created, and is not compared.
  - A token that has expired counts as absent. O(state=absent) revokes all tokens of this
    name.
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
    description:
      - Privileges that the token may use, or names of built-in roles.
      - An empty list permits all privileges of the account. Omit it to keep the existing scopes.
    type: list
    elements: str
  networks:
    description:
      - Networks from which the token is valid, such as V(10.0.0.0/8).
      - An empty list permits all networks. Omit it to keep the existing networks.
    type: list
    elements: str
  lifetime_seconds:
    description: "Time until the token ends, at least 60 seconds."
    type: int
  replace:
    description:
      - If scopes or networks differ, create another token, and then revoke the existing one.
      - The new secret is returned as RV(token.token). What uses the old one must get it.
    type: bool
    default: false
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

import ipaddress

from ansible_collections.busbar.pool.plugins.module_utils.resource import Kind, manage

KIND = Kind(
    "token",
    "tokens",
    identity=["user", "name"],
    fixed=["scopes", "networks"],
    at_creation=["lifetime_seconds"],
    sets=["scopes", "networks"],
)
OPTIONS = {
    "name": {"type": "str", "required": True},
    "user": {"type": "str", "required": True},
    "scopes": {"type": "list", "elements": "str"},
    "networks": {"type": "list", "elements": "str"},
    "lifetime_seconds": {"type": "int"},
    "replace": {"type": "bool", "default": False},
}


def expand_scopes(appliance, scopes):
    """Replace names of built-in roles by their privileges, as the appliance does."""
    roles = {r["name"]: r["privileges"] for r in appliance.items("roles") if r["built_in"]}
    return sorted(set().union(*(roles.get(name, [name]) for name in scopes)))


def normal_network(text):
    """Return the network in the form of the appliance, which says what is wrong with others."""
    try:
        return str(ipaddress.ip_network(text))
    except ValueError:
        return text


def prepare(appliance, params):
    """Return scopes and networks in the form in which the appliance returns them."""
    prepared = {}
    if params["scopes"]:
        prepared["scopes"] = expand_scopes(appliance, params["scopes"])
    if params["networks"]:
        prepared["networks"] = [normal_network(text) for text in params["networks"]]
    return prepared


def main():
    manage(KIND, OPTIONS, prepare=prepare)


if __name__ == "__main__":
    main()
