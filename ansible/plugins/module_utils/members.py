# Copyright: The Busbar developers
# Apache License 2.0 (see LICENSE or https://www.apache.org/licenses/LICENSE-2.0)
"""Members of a group of the appliance, for modules."""

FIELDS = {"users": "user", "groups": "group"}


def members_of(appliance, group):
    return appliance.items(f"groups/{group['id']}/members")


def names(members):
    """Return the sorted names of the users and of the groups among the members."""
    return {
        option: sorted(m[field] for m in members if m[field] is not None)
        for option, field in FIELDS.items()
    }


def with_members(appliance, group):
    """Return the group with the names of its members."""
    return {**group, **names(members_of(appliance, group))}


def set_members(appliance, group, wanted):
    """Add and remove members. `wanted` has the complete names by option."""
    path = f"groups/{group['id']}/members"
    members = members_of(appliance, group)
    for option, wanted_names in wanted.items():
        field = FIELDS[option]
        existing = {m[field]: m["id"] for m in members if m[field] is not None}
        for name in sorted(set(wanted_names) - set(existing)):
            appliance.request("POST", path, {field: name})
        for name in sorted(set(existing) - set(wanted_names)):
            appliance.request("DELETE", f"{path}/{existing[name]}")
