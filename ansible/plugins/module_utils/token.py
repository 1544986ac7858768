# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Scopes and networks of API tokens in the form of the appliance, for the module."""

import ipaddress


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
