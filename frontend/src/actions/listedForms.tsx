// Dialogs of the actions on objects that only lists show.
import type { Schema } from "../api/client";
import apiFields from "../api/fields.json";
import type { Actionable } from "../model/kinds";
import { t } from "../text/text";
import type { Field } from "../ui/fields";
import { apiForm } from "./apiForm";
import { requestOf, valuesOf, FIELDS as DEFINITION_FIELDS } from "./definitionForm";
import { openEdit } from "./edit";
import { NOTES, renamer } from "./forms";
import * as send from "./listedRequests";
import { openForm } from "./openForm";
import { PRIVILEGES } from "./privileges";

const text = (value: unknown) => (typeof value === "string" ? value : "");

export const ROLE_FIELDS: Field[] = [
  { name: "privileges", label: "access.privileges", type: "checks", options: PRIVILEGES },
];
export const editRole = (x: Actionable) =>
  openEdit("roles", x, {
    fields: ROLE_FIELDS,
    values: (role) => ({ privileges: role.privileges ?? [] }),
    settings: (v) => ({ privileges: v.privileges as Schema<"RoleRequest">["privileges"] }),
  });

const QUOTA = apiForm<Schema<"Quota">, Schema<"PatchedQuotaSettings">>(
  apiFields.quotas.properties,
  { texts: "quota", without: ["subject_kind", "subject"] },
);
export const { fields: QUOTA_FIELDS, requestOf: quotaSettings } = QUOTA;
export const editQuota = (x: Actionable) =>
  openEdit("quotas", x, {
    // A new quota has a default weight, but there is no request that empties it.
    fields: QUOTA_FIELDS.map((f) => (f.name === "weight" ? { ...f, required: true } : f)),
    values: QUOTA.valuesOf,
    settings: quotaSettings,
  });

export const editSite = (x: Actionable) =>
  openEdit("sites", x, {
    fields: [NOTES],
    values: (site) => ({ notes: site.notes ?? "" }),
    settings: (v) => ({ notes: text(v.notes) }),
  });
export const renameSite = renamer("sites");

// A webhook that stays keeps its key: sending the address again would remove it.
export const editDefinition = (x: Actionable) =>
  openEdit("alarm-definitions", x, {
    fields: DEFINITION_FIELDS,
    values: valuesOf,
    settings: requestOf,
  });

export const acknowledgeAlarm = (x: Actionable) =>
  openForm(x, "alarm.acknowledge", {
    description: t("alarm.acknowledgeHelp"),
    fields: [{ name: "text", label: "alarm.text", type: "text" }],
    verb: t("alarm.acknowledge"),
    submit: async (v) => void (await send.acknowledgeAlarm(x.id, text(v.text))),
  });
