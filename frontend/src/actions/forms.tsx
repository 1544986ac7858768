// Dialogs of the actions that need values.
import { ClipboardCopy } from "@patternfly/react-core";
import { refresh } from "../api/cache";
import type { Actionable } from "../model/kinds";
import { labelLines, labelsOf } from "../model/labels";
import { type Key, t } from "../text/text";
import { FormDialog } from "../ui/FormDialog";
import type { Field } from "../ui/fields";
import { openDialog } from "./dialogs";
import { type Edit, openEdit } from "./edit";
import { openForm } from "./openForm";
import { POOL_FIELDS, WIDER_POOL_FIELDS, poolSettings, poolValues } from "./poolFields";
import { mayEverywhere } from "./queries";
import * as send from "./requests";

const text = (value: unknown) => (typeof value === "string" ? value : "");
export const NAME: Field = { name: "name", label: "field.name", type: "text", required: true };
export const NOTES: Field = { name: "notes", label: "field.notes", type: "area" };
const LABELS: Field = {
  name: "labels",
  label: "field.labels",
  type: "labels",
  help: "help.labels",
};

type NamedKind = "projects" | "departments" | "groups" | "sites";
const RENAMING: Edit<NamedKind> = {
  fields: [NAME],
  values: (row) => ({ name: row.name }),
  settings: (v) => ({ name: text(v.name) }),
};
export const renamer = (kind: NamedKind) => (x: Actionable) =>
  openEdit(kind, x, RENAMING, "action.rename");
export const renameProject = renamer("projects");
export const renameDepartment = renamer("departments");
export const renameGroup = renamer("groups");

const SITE: Field = {
  name: "site",
  label: "field.site",
  type: "names",
  from: "sites",
  blank: "common.none",
};
export const editNode = (x: Actionable) =>
  openEdit("nodes", x, {
    fields: [SITE, LABELS, NOTES],
    values: (n) => ({ site: n.site ?? "", labels: labelLines(n.labels), notes: n.notes ?? "" }),
    settings: (v) => ({
      site: text(v.site),
      labels: labelsOf(text(v.labels)),
      notes: text(v.notes),
    }),
  });

const POOL: Field = { name: "pool", label: "field.pool", type: "names", from: "pools" };
export const editGpu = (x: Actionable) =>
  openEdit("gpus", x, {
    fields: [POOL, LABELS, NOTES],
    values: (g) => ({ pool: g.pool ?? "", labels: labelLines(g.labels), notes: g.notes ?? "" }),
    settings: (v) => ({
      pool: text(v.pool),
      labels: labelsOf(text(v.labels)),
      notes: text(v.notes),
    }),
  });

export const admitGpu = (x: Actionable) =>
  openForm(x, "action.admit", {
    fields: [POOL],
    submit: async (v) => void (await send.admitGpu(x.id, text(v.pool))),
  });

export async function editPool(x: Actionable) {
  const isOwn = !(await mayEverywhere("pools.manage"));
  const fields = POOL_FIELDS.filter((f) => !(isOwn && WIDER_POOL_FIELDS.includes(f.name)));
  const edit: Edit<"pools"> = { fields, values: poolValues, settings: poolSettings };
  const dialog = isOwn ? { description: t("pool.ownSettings") } : {};
  return openEdit("pools", x, edit, "action.edit", dialog);
}

export const moveProject = (x: Actionable) =>
  openEdit(
    "projects",
    x,
    {
      fields: [
        {
          name: "department",
          label: "field.department",
          type: "names",
          from: "departments",
          blank: "common.none",
        },
      ],
      values: (p) => ({ department: p.department ?? "" }),
      settings: (v) => ({ department: text(v.department) }),
    },
    "action.move",
  );

export const addMember = (x: Actionable) =>
  openForm(x, "action.addMember", {
    fields: [
      { name: "user", label: "field.user", type: "names", from: "users" },
      { name: "group", label: "field.orGroup", type: "names", from: "groups" },
    ],
    submit: async (v) =>
      void (await send.addMember(x.id, v.user ? { user: text(v.user) } : { group: text(v.group) })),
  });

export const editUser = (x: Actionable) =>
  openEdit("users", x, {
    fields: [
      { name: "email", label: "field.email", type: "text" },
      { name: "is_active", label: "field.active", type: "switch" },
    ],
    values: (u) => ({ email: u.email ?? "", is_active: u.is_active ?? true }),
    settings: (v) => ({ email: text(v.email), is_active: Boolean(v.is_active) }),
  });

/** A secret that is shown once. */
export function Secret({ label, value }: { label: Key; value: string }) {
  return (
    <div className="bb-stack">
      <p>{t(label)}</p>
      <ClipboardCopy
        isReadOnly
        hoverTip={t("common.copy")}
        clickTip={t("common.copied")}
        textAriaLabel={t("field.secret")}
      >
        {value}
      </ClipboardCopy>
    </div>
  );
}

export async function resetPassword(x: Actionable) {
  const { one_time_password } = await send.newPassword(x.id);
  refresh();
  openDialog((close) => (
    <FormDialog
      title={t("form.title", { action: t("action.resetPassword"), name: x.name })}
      fields={[]}
      verb={t("common.close")}
      close={close}
      submit={async () => undefined}
      description={t("secret.password")}
      result={<Secret label="secret.once" value={one_time_password} />}
    />
  ));
}
