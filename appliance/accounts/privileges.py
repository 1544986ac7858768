"""Privileges and the built-in roles. A privilege that no role binding grants is denied."""

from __future__ import annotations

from appliance.accounts.models import Role

VIEW = {
    "inventory.view",
    "pools.view",
    "allocations.view",
    "activity.view",
    "alarms.view",
    "account.self",
}
USE = VIEW | {"allocations.create", "allocations.use"}
OPERATE = USE | {
    "alarms.acknowledge",
    "alarms.manage",
    "allocations.manage",
    "fleet.enrol",
    "inventory.manage",
    "pools.manage",
}
ADMINISTER = OPERATE | {
    "accounts.manage",
    "allocations.force",
    "audit.read",
    "fleet.forget_host_key",
    "fleet.rotate_keys",
    "fleet.use_ssh_agent",
    "members.manage",
    "settings.manage",
}
APPLIANCE_ONLY = {
    "accounts.manage",
    "alarms.manage",
    "allocations.force",
    "fleet.enrol",
    "fleet.forget_host_key",
    "fleet.rotate_keys",
    "fleet.use_ssh_agent",
    "inventory.manage",
    "pools.manage",
    "settings.manage",
}
"""Privileges whose use affects all projects. A role binding in a project does not grant them."""
INVENTORY = {
    "alarms.acknowledge",
    "alarms.view",
    "inventory.manage",
    "inventory.view",
    "pools.manage",
    "pools.view",
}
"""Privileges that a role binding in the inventory grants, at its object and below."""

PRIVILEGES: dict[str, set[str]] = {
    Role.VIEWER: VIEW,
    Role.USER: USE,
    Role.OPERATOR: OPERATE,
    Role.ADMINISTRATOR: ADMINISTER,
}
"""Privileges of the built-in roles. Administrators have all privileges there are."""
