// The part of the registry about objects that only lists show.
import * as forms from "./listedForms";
import * as send from "./listedRequests";
import type { Spec } from "./spec";

const DELETE = { name: "delete", label: "action.delete", danger: true } as const;

export const LISTED_SPECS: readonly Spec[] = [
  { kind: "roles", name: "update", label: "action.edit", open: forms.editRole },
  { kind: "roles", ...DELETE, run: (x) => send.deleteRole(x.id) },
  { kind: "role-bindings", ...DELETE, bulk: true, run: (x) => send.deleteBinding(x.id) },
  {
    kind: "tokens",
    name: "revoke",
    label: "action.revoke",
    danger: true,
    bulk: true,
    run: (x) => send.revokeToken(x.id),
  },
  { kind: "quotas", name: "update", label: "action.edit", open: forms.editQuota },
  { kind: "quotas", ...DELETE, bulk: true, run: (x) => send.deleteQuota(x.id) },
  { kind: "reservations", ...DELETE, bulk: true, run: (x) => send.deleteReservation(x.id) },
  { kind: "sites", name: "rename", label: "action.rename", open: forms.renameSite },
  { kind: "sites", name: "update", label: "action.edit", open: forms.editSite },
  { kind: "sites", ...DELETE, run: (x) => send.deleteSite(x.id) },
  {
    kind: "alarms",
    name: "acknowledge",
    label: "alarm.acknowledge",
    open: forms.acknowledgeAlarm,
  },
  {
    kind: "alarm-definitions",
    name: "update",
    label: "alarm.enable",
    state: "disabled",
    bulk: true,
    run: (x) => send.enableDefinition(x, true),
  },
  {
    kind: "alarm-definitions",
    name: "update",
    label: "alarm.disable",
    state: "enabled",
    bulk: true,
    run: (x) => send.enableDefinition(x, false),
  },
  { kind: "alarm-definitions", name: "update", label: "action.edit", open: forms.editDefinition },
  { kind: "alarm-definitions", ...DELETE, bulk: true, run: (x) => send.deleteDefinition(x.id) },
  {
    kind: "tasks",
    name: "cancel",
    label: "action.cancelTask",
    danger: true,
    run: (x) => send.cancelTask(x.id),
  },
];
