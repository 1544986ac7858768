"""The console's registry of actions names those of the appliance."""

from __future__ import annotations

import re

import appliance.urls  # noqa: F401  (the views import all kinds)
from appliance.accounts import actions
from deploy.supervisor import ROOT

REGISTRY = ROOT / "frontend" / "src" / "actions"
SPEC = re.compile(r'kind: "([\w-]+)",\s*(?:name: "(\w+)"|\.\.\.DELETE)')
NOT_IN_MENUS = {
    # Programs renew their lease and draw tickets, not people.
    ("allocations", "heartbeat"),
    ("allocations", "tickets"),
    # The panel of passkeys answers the refusal of an old sign-in with another sign-in.
    ("passkeys", "delete"),
    ("passkeys", "rename"),
}


def test_registry_of_the_console_has_every_action_of_the_appliance() -> None:
    sources = [(REGISTRY / name).read_text() for name in ("registry.ts", "listedSpecs.ts")]
    offered = {(kind, name or "delete") for s in sources for kind, name in SPEC.findall(s)}
    known = {(k, a.name) for k in actions.kinds() for a in actions._kinds[k].actions}
    assert offered == known - NOT_IN_MENUS
