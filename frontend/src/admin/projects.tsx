// Panes of pools, projects, departments, quotas and reservations.
import { QUOTA_FIELDS, quotaSettings } from "../actions/listedForms";
import { POOL_FIELDS, poolCommand, poolSettings } from "../actions/poolFields";
import { createPool } from "../actions/requests";
import { type Schema, api, idempotencyKey, unwrap } from "../api/client";
import type { RowOf } from "../api/lists";
import { dateTime, gpuCount } from "../model/format";
import { shellLine } from "../model/shellLine";
import { ListPane, type NewRow } from "../tables/ListPane";
import type { Column } from "../tables/columns";
import { t } from "../text/text";
import type { Field, FormValues } from "../ui/fields";

const POOLS = "pools.manage";
const ACCOUNTS = "accounts.manage";
const text = (value: unknown) => (typeof value === "string" ? value : "");
const NAME: Field = { name: "name", label: "field.name", type: "text", required: true };
const limit = (value: number | null | undefined) =>
  value == null ? t("common.none") : gpuCount(value);

export function PoolsPane() {
  return (
    <ListPane
      list="pools"
      title="nav.pools"
      columns={[
        { id: "name", label: "field.name", value: (p) => p.name },
        {
          id: "policies",
          label: "poolField.policies",
          value: (p) => ((p.policies as string[]) ?? []).join(", "),
        },
        {
          id: "projects",
          label: "tree.projects",
          value: (p) => p.projects.join(", ") || t("pool.allProjects"),
        },
        {
          id: "isolation",
          label: "poolField.required_isolation",
          value: (p) => p.required_isolation ?? "any",
        },
      ]}
      target={(p) => ({ kind: "pools", id: p.id, name: p.name })}
      create={{
        label: "action.createPool",
        privilege: POOLS,
        fields: [NAME, ...POOL_FIELDS],
        initial: { required_isolation: "any" },
        command: poolCommand,
        send: async (v) =>
          void (await createPool({
            ...poolSettings(v),
            name: text(v.name),
          } as Schema<"PoolRequest">)),
      }}
    />
  );
}

const PROJECT_COLUMNS: Column<RowOf<"projects">>[] = [
  { id: "name", label: "field.name", value: (p) => p.name },
  { id: "department", label: "field.department", value: (p) => p.department ?? "" },
  {
    id: "since",
    label: "node.since",
    value: (p) => p.created_at ?? "",
    cell: (p) => dateTime(p.created_at),
  },
];
const DEPARTMENT: Field = {
  name: "department",
  label: "field.department",
  type: "names",
  from: "departments",
  blank: "common.none",
};
const NEW_PROJECT: NewRow = {
  label: "project.create",
  privilege: ACCOUNTS,
  fields: [NAME, DEPARTMENT],
  command: (v) =>
    shellLine(["busbar", "project", "create", text(v.name) || "NAME"], {
      department: v.department,
    }),
  send: async (v) =>
    void unwrap(
      await api.POST("/api/v1/projects", {
        body: {
          name: text(v.name),
          ...(v.department ? { department: text(v.department) } : {}),
        } as Schema<"ProjectRequest">,
      }),
    ),
};

export function ProjectsPane() {
  return (
    <ListPane
      list="projects"
      title="tree.projects"
      columns={PROJECT_COLUMNS}
      target={(p) => ({ kind: "projects", id: p.id, name: p.name })}
      create={NEW_PROJECT}
    />
  );
}

export function DepartmentsPane() {
  return (
    <ListPane
      list="departments"
      title="project.departments"
      columns={[
        { id: "name", label: "field.name", value: (d) => d.name },
        {
          id: "since",
          label: "node.since",
          value: (d) => d.created_at ?? "",
          cell: (d) => dateTime(d.created_at),
        },
      ]}
      target={(d) => ({ kind: "departments", id: d.id, name: d.name })}
      create={{
        label: "project.createDepartment",
        privilege: ACCOUNTS,
        fields: [NAME],
        command: (v) => shellLine(["busbar", "department", "create", text(v.name) || "NAME"]),
        send: async (v) =>
          void unwrap(await api.POST("/api/v1/departments", { body: { name: text(v.name) } })),
      }}
    />
  );
}

const QUOTA_COLUMNS: Column<RowOf<"quotas">>[] = [
  {
    id: "subject",
    label: "quota.subject",
    value: (q) => `${t(`quota.${q.subject_kind}`)} ${q.subject ?? ""}`,
  },
  { id: "quota", label: "quota.quota_gpus", value: (q) => limit(q.quota_gpus) },
  { id: "limit", label: "quota.limit_gpus", value: (q) => limit(q.limit_gpus) },
  {
    id: "borrows",
    label: "quota.borrows",
    value: (q) => t(q.borrows ? "common.yes" : "common.no"),
  },
  { id: "weight", label: "quota.weight", value: (q) => q.weight ?? 1 },
];
const SUBJECT_KIND: Field = {
  name: "subject_kind",
  label: "quota.kind",
  type: "select",
  options: ["project", "department", "user"],
  required: true,
};
const NEW_QUOTA: NewRow = {
  label: "quota.create",
  privilege: POOLS,
  fields: [
    SUBJECT_KIND,
    { name: "subject", label: "field.name", type: "text", required: true },
    ...QUOTA_FIELDS,
  ],
  initial: { borrows: true },
  send: async (v) =>
    void unwrap(
      await api.POST("/api/v1/quotas", {
        body: {
          ...quotaSettings(v),
          subject_kind: v.subject_kind as "project",
          subject: text(v.subject),
        },
      }),
    ),
};

export function QuotasPane() {
  return (
    <ListPane
      list="quotas"
      title="project.quotas"
      actionable={(q) => ({ kind: "quotas", id: q.id, name: q.subject ?? "" })}
      hasBulk
      columns={QUOTA_COLUMNS}
      create={NEW_QUOTA}
    />
  );
}

const RESERVATION_COLUMNS: Column<RowOf<"reservations">>[] = [
  { id: "name", label: "field.name", value: (r) => r.name },
  { id: "pool", label: "field.pool", value: (r) => r.pool },
  { id: "project", label: "field.project", value: (r) => r.project },
  {
    id: "gpus",
    label: "reservation.gpus",
    value: (r) => `${r.gpu_count} × ${r.percent ?? 100} %`,
  },
  {
    id: "from",
    label: "event.from",
    value: (r) => r.starts_at,
    cell: (r) => dateTime(r.starts_at),
  },
  { id: "to", label: "event.to", value: (r) => r.ends_at, cell: (r) => dateTime(r.ends_at) },
];
const RESERVATION_FIELDS: Field[] = [
  NAME,
  { name: "pool", label: "field.pool", type: "names", from: "pools", required: true },
  { name: "project", label: "field.project", type: "names", from: "projects", required: true },
  { name: "gpu_count", label: "reservation.gpus", type: "number", required: true },
  { name: "percent", label: "allocate.percent", type: "number" },
  { name: "starts_at", label: "event.from", type: "moment", required: true },
  { name: "ends_at", label: "event.to", type: "moment", required: true },
];
const reservationOf = (v: FormValues) => ({
  name: text(v.name),
  pool: text(v.pool),
  project: text(v.project),
  gpu_count: Number(text(v.gpu_count)),
  percent: Number(text(v.percent)) || 100,
  starts_at: new Date(text(v.starts_at)).toISOString(),
  ends_at: new Date(text(v.ends_at)).toISOString(),
});
const NEW_RESERVATION: NewRow = {
  label: "reservation.create",
  privilege: POOLS,
  fields: RESERVATION_FIELDS,
  initial: { gpu_count: "1", percent: "100" },
  send: async (v) =>
    void unwrap(
      await api.POST("/api/v1/reservations", {
        body: reservationOf(v),
        headers: idempotencyKey(),
      }),
    ),
};

export function ReservationsPane() {
  return (
    <ListPane
      list="reservations"
      title="project.reservations"
      actionable={(r) => ({ kind: "reservations", id: r.id, name: r.name })}
      hasBulk
      columns={RESERVATION_COLUMNS}
      create={NEW_RESERVATION}
    />
  );
}
