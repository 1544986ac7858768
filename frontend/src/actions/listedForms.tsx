// Dialogs of the actions on objects that only lists show.
import { requestOf, valuesOf, FIELDS as DEFINITION_FIELDS } from "../alarms/definitionForm";
import { cache } from "../api/cache";
import type { AlarmDefinition, Schema } from "../api/client";
import { type ListName, type RowOf, listQuery } from "../api/lists";
import { t } from "../text/text";
import type { Field, FormValues } from "../ui/fields";
import { NOTES, openForm, openRename } from "./forms";
import type { Actionable } from "./kinds";
import * as send from "./listedRequests";
import { present } from "./present";
import { PRIVILEGES } from "./privileges";

const text = (value: unknown) => (typeof value === "string" ? value : "");

async function rowOf<N extends ListName>(list: N, x: Actionable): Promise<RowOf<N>> {
  const rows: readonly RowOf<N>[] = await cache.fetchQuery(listQuery(list));
  return present(rows, x);
}

export const ROLE_FIELDS: Field[] = [
  { name: "privileges", label: "access.privileges", type: "checks", options: PRIVILEGES },
];
export async function editRole(x: Actionable) {
  const role = await rowOf("roles", x);
  openForm(x, "action.edit", {
    fields: ROLE_FIELDS,
    initial: { privileges: role.privileges ?? [] },
    submit: async (v) =>
      void (await send.updateRole(x.id, v.privileges as Schema<"RoleRequest">["privileges"])),
  });
}

export const QUOTA_FIELDS: Field[] = [
  { name: "quota_gpus", label: "quota.guaranteed", type: "number", help: "quota.guaranteedHelp" },
  { name: "limit_gpus", label: "quota.limit", type: "number", help: "quota.limitHelp" },
  { name: "borrows", label: "quota.borrows", type: "switch" },
  { name: "weight", label: "quota.weight", type: "number" },
];
const numberOrNull = (value: unknown) => (text(value) ? Number(text(value)) : null);
export const quotaSettings = (v: FormValues): Schema<"PatchedQuotaSettings"> => ({
  quota_gpus: numberOrNull(v.quota_gpus),
  limit_gpus: numberOrNull(v.limit_gpus),
  borrows: Boolean(v.borrows),
  ...(text(v.weight) ? { weight: Number(text(v.weight)) } : {}),
});
export async function editQuota(x: Actionable) {
  const quota = await rowOf("quotas", x);
  openForm(x, "action.edit", {
    fields: QUOTA_FIELDS,
    initial: {
      quota_gpus: String(quota.quota_gpus ?? ""),
      limit_gpus: String(quota.limit_gpus ?? ""),
      borrows: quota.borrows ?? true,
      weight: String(quota.weight ?? ""),
    },
    submit: async (v) => void (await send.updateQuota(x.id, quotaSettings(v))),
  });
}

export async function editSite(x: Actionable) {
  const site = await rowOf("sites", x);
  openForm(x, "action.edit", {
    fields: [NOTES],
    initial: { notes: site.notes ?? "" },
    submit: async (v) => void (await send.updateSite(x.id, { notes: text(v.notes) })),
  });
}
export const renameSite = (x: Actionable) =>
  openRename(x, (id, name) => send.updateSite(id, { name }));

/** A webhook that stays keeps its key: sending the address again would remove it. */
function changesOf(
  row: AlarmDefinition,
  values: FormValues,
): Schema<"PatchedAlarmDefinitionChange"> {
  const { webhook_url, ...rest } = requestOf(values);
  return webhook_url === row.webhook_url ? rest : { ...rest, webhook_url: webhook_url ?? "" };
}
export async function editDefinition(x: Actionable) {
  const row = await rowOf("alarmDefinitions", x);
  openForm(x, "action.edit", {
    fields: DEFINITION_FIELDS,
    initial: valuesOf(row),
    submit: async (v) => void (await send.updateDefinition(x.id, changesOf(row, v))),
  });
}

export const acknowledgeAlarm = (x: Actionable) =>
  openForm(x, "alarm.acknowledge", {
    description: t("alarm.acknowledgeHelp"),
    fields: [{ name: "text", label: "alarm.text", type: "text" }],
    verb: t("alarm.acknowledge"),
    submit: async (v) => void (await send.acknowledgeAlarm(x.id, text(v.text))),
  });
