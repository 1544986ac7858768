// Dialogs of the actions that need values.
import { ClipboardCopy } from "@patternfly/react-core";
import { cache, refresh } from "../api/cache";
import type { Schema } from "../api/client";
import { resizeCurl } from "../allocations/request";
import { listQuery } from "../api/lists";
import { rowsQuery } from "../api/queries";
import { type Key, t } from "../text/text";
import { FormDialog, type FormDialogProps } from "../ui/FormDialog";
import { type Field, type FormValues, labelLines, labelsOf } from "../ui/fields";
import { change } from "./change";
import { openDialog } from "./dialogs";
import type { Actionable } from "./kinds";
import { present } from "./present";
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

type Options = Pick<FormDialogProps, "fields" | "submit"> & Partial<FormDialogProps>;

/** Open a form about an object; after its submission say what was done. */
export function openForm(x: Actionable, label: Key, options: Options) {
  const action = t(label);
  openDialog((close) => (
    <FormDialog
      title={t("form.title", { action, name: x.name })}
      verb={t("common.save")}
      close={close}
      {...options}
      submit={(values) =>
        change(t("result.done", { action, name: x.name }), async () => options.submit(values))
      }
    />
  ));
}

export const openRename = (x: Actionable, rename: (id: string, name: string) => Promise<unknown>) =>
  openForm(x, "action.rename", {
    fields: [NAME],
    initial: { name: x.name },
    submit: async (v) => void (await rename(x.id, text(v.name))),
  });

export async function editNode(x: Actionable) {
  const node = present(await cache.ensureQueryData(rowsQuery("node")), x);
  openForm(x, "action.edit", {
    fields: [
      { name: "site", label: "field.site", type: "names", from: "sites", blank: "common.none" },
      LABELS,
      NOTES,
    ],
    initial: { site: node.site ?? "", labels: labelLines(node.labels), notes: node.notes ?? "" },
    submit: async (v) =>
      void (await send.updateNode(x.id, {
        labels: labelsOf(v.labels),
        notes: text(v.notes),
        site: text(v.site),
      })),
  });
}

export async function editGpu(x: Actionable) {
  const gpu = present(await cache.ensureQueryData(rowsQuery("gpu")), x);
  openForm(x, "action.edit", {
    fields: [{ name: "pool", label: "field.pool", type: "names", from: "pools" }, LABELS, NOTES],
    initial: { pool: gpu.pool ?? "", labels: labelLines(gpu.labels), notes: gpu.notes ?? "" },
    submit: async (v) =>
      void (await send.updateGpu(x.id, {
        labels: labelsOf(v.labels),
        notes: text(v.notes),
        ...(text(v.pool) && text(v.pool) !== gpu.pool ? { pool: text(v.pool) } : {}),
      })),
  });
}

export const admitGpu = (x: Actionable) =>
  openForm(x, "action.admit", {
    fields: [{ name: "pool", label: "field.pool", type: "names", from: "pools" }],
    submit: async (v) => void (await send.admitGpu(x.id, text(v.pool))),
  });

export async function resizeAllocation(x: Actionable) {
  const rows = await cache.ensureQueryData(rowsQuery("allocation"));
  const allocation = present(rows, x);
  openForm(x, "action.resize", {
    fields: [
      { name: "percent", label: "field.percent", type: "number", help: "help.percent" },
      { name: "memory", label: "field.memoryGib", type: "number", help: "help.memoryGib" },
    ],
    initial: {
      percent: String(allocation.percent ?? ""),
      memory: String((allocation.memory_bytes ?? 0) / 2 ** 30),
    },
    verb: t("action.resize"),
    command: (v) => resizeCurl(x.id, sizeOf(v), location.origin),
    submit: async (v) => void (await send.resize(x.id, sizeOf(v))),
  });
}
const sizeOf = (v: FormValues) => ({
  percent: Number(text(v.percent)),
  memory_bytes: Math.round(Number(text(v.memory)) * 2 ** 30),
});

const POLICIES = ["pack", "spread", "model_affinity", "exclusive"] as const;
const ISOLATION = ["any", "process", "namespaces", "full"] as const;
export const POOL_FIELDS: Field[] = [
  { name: "policies", label: "field.policies", type: "checks", options: POLICIES },
  { name: "projects", label: "field.projects", type: "text", help: "help.projects" },
  { name: "fallbacks", label: "field.fallbacks", type: "text", help: "help.fallbacks" },
  {
    name: "max_lifetime_seconds",
    label: "field.maxLifetime",
    type: "number",
    help: "help.seconds",
  },
  { name: "max_idle_seconds", label: "field.maxIdle", type: "number", help: "help.seconds" },
  { name: "required_isolation", label: "field.isolation", type: "select", options: ISOLATION },
  { name: "admit_new_gpus", label: "field.admitNew", type: "switch" },
];
const words = (value: unknown) =>
  text(value)
    .split(/[\s,]+/)
    .filter(Boolean);

export function poolValues(pool: Partial<Schema<"Pool">>): FormValues {
  return {
    policies: (pool.policies as string[]) ?? [],
    projects: (pool.projects ?? []).join(" "),
    fallbacks: (pool.fallbacks ?? []).join(" "),
    max_lifetime_seconds: String(pool.max_lifetime_seconds ?? ""),
    max_idle_seconds: String(pool.max_idle_seconds ?? ""),
    required_isolation: pool.required_isolation ?? "any",
    admit_new_gpus: pool.admit_new_gpus ?? false,
  };
}
export function poolSettings(v: FormValues): Schema<"PatchedPoolSettings"> {
  const seconds = (value: unknown) => (text(value) ? Number(text(value)) : undefined);
  return {
    policies: v.policies as NonNullable<Schema<"PatchedPoolSettings">["policies"]>,
    projects: words(v.projects),
    fallbacks: words(v.fallbacks),
    max_lifetime_seconds: seconds(v.max_lifetime_seconds),
    max_idle_seconds: seconds(v.max_idle_seconds),
    required_isolation: (text(v.required_isolation) || "any") as "any",
    admit_new_gpus: Boolean(v.admit_new_gpus),
  };
}
export async function editPool(x: Actionable) {
  const pool = present(await cache.ensureQueryData(rowsQuery("pool")), x);
  openForm(x, "action.edit", {
    fields: POOL_FIELDS,
    initial: poolValues(pool),
    submit: async (v) => void (await send.updatePool(x.id, poolSettings(v))),
  });
}

export const renameProject = (x: Actionable) =>
  openRename(x, (id, name) => send.updateProject(id, { name }));
export const moveProject = (x: Actionable) =>
  openForm(x, "action.move", {
    fields: [
      {
        name: "department",
        label: "field.department",
        type: "names",
        from: "departments",
        blank: "common.none",
      },
    ],
    submit: async (v) => void (await send.updateProject(x.id, { department: text(v.department) })),
  });
export const renameDepartment = (x: Actionable) => openRename(x, send.renameDepartment);
export const renameGroup = (x: Actionable) => openRename(x, send.renameGroup);

export const addMember = (x: Actionable) =>
  openForm(x, "action.addMember", {
    fields: [
      { name: "user", label: "field.user", type: "names", from: "users" },
      { name: "group", label: "field.orGroup", type: "names", from: "groups" },
    ],
    submit: async (v) =>
      void (await send.addMember(x.id, v.user ? { user: text(v.user) } : { group: text(v.group) })),
  });

export async function editUser(x: Actionable) {
  const user = present(await cache.fetchQuery(listQuery("users")), x);
  openForm(x, "action.edit", {
    fields: [
      { name: "email", label: "field.email", type: "text" },
      { name: "active", label: "field.active", type: "switch" },
    ],
    initial: { email: user.email ?? "", active: user.is_active ?? true },
    submit: async (v) =>
      void (await send.updateUser(x.id, { email: text(v.email), is_active: Boolean(v.active) })),
  });
}

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
