// Panes of users, groups, roles and role bindings.
import { Label } from "@patternfly/react-core";
import { Secret } from "../actions/forms";
import { ROLE_FIELDS } from "../actions/listedForms";
import { type Schema, api, unwrap } from "../api/client";
import type { RowOf } from "../api/lists";
import { dateTime } from "../model/format";
import { shellLine } from "../model/shellLine";
import type { Column } from "../tables/DataTable";
import { ListPane, type NewRow } from "../tables/ListPane";
import { t } from "../text/text";
import type { FormValues, Field } from "../ui/fields";
import { bindingActionable } from "./BindingTable";
import { PLACES, placeText } from "./place";

const text = (value: unknown) => (typeof value === "string" ? value : "");
const given = (values: FormValues) =>
  Object.fromEntries(Object.entries(values).filter(([, v]) => v !== ""));
const MANAGE = "accounts.manage";

const USER_COLUMNS: Column<RowOf<"users">>[] = [
  { id: "name", label: "people.username", value: (u) => u.username },
  { id: "email", label: "field.email", value: (u) => u.email },
  {
    id: "state",
    label: "people.state",
    value: (u) => (u.is_active === false ? "inactive" : "active"),
    cell: (u) => (
      <Label isCompact status={u.is_active === false ? "warning" : "success"}>
        {t(u.is_active === false ? "people.inactive" : "people.active")}
      </Label>
    ),
  },
  {
    id: "kind",
    label: "people.kind",
    value: (u) => t(u.is_service ? "people.service" : "people.person"),
  },
  {
    id: "since",
    label: "node.since",
    value: (u) => u.created_at,
    cell: (u) => dateTime(u.created_at),
  },
];

export function UsersPane() {
  return (
    <ListPane
      list="users"
      title="people.users"
      columns={USER_COLUMNS}
      hasBulk
      target={(u) => ({ kind: "users", id: u.id, name: u.username, version: u.version })}
      create={{
        label: "people.createUser",
        privilege: MANAGE,
        fields: [
          { name: "username", label: "people.username", type: "text", required: true },
          { name: "email", label: "field.email", type: "text" },
          {
            name: "is_service",
            label: "people.service",
            type: "switch",
            help: "people.serviceHelp",
          },
        ],
        command: (v) =>
          shellLine(["busbar", "user", "create", text(v.username) || "NAME"], {
            email: v.email,
            service: v.is_service,
          }),
        send: async (v) => {
          const user = unwrap(
            await api.POST("/api/v1/users", { body: given(v) as Schema<"UserRequest"> }),
          );
          if (user.one_time_password)
            return <Secret label="secret.once" value={user.one_time_password} />;
        },
      }}
    />
  );
}

export function GroupsPane() {
  return (
    <ListPane
      list="groups"
      title="people.groups"
      columns={[
        { id: "name", label: "field.name", value: (g) => g.name },
        {
          id: "since",
          label: "node.since",
          value: (g) => g.created_at ?? "",
          cell: (g) => dateTime(g.created_at),
        },
      ]}
      target={(g) => ({ kind: "groups", id: g.id, name: g.name })}
      create={{
        label: "people.createGroup",
        privilege: MANAGE,
        fields: [{ name: "name", label: "field.name", type: "text", required: true }],
        command: (v) => shellLine(["busbar", "group", "create", text(v.name) || "NAME"]),
        send: async (v) =>
          void unwrap(await api.POST("/api/v1/groups", { body: { name: text(v.name) } })),
      }}
    />
  );
}

const ROLE_COLUMNS: Column<RowOf<"roles">>[] = [
  { id: "name", label: "field.name", value: (r) => r.name },
  {
    id: "kind",
    label: "people.kind",
    value: (r) => t(r.built_in ? "people.builtIn" : "people.custom"),
  },
  { id: "privileges", label: "access.privileges", value: (r) => r.privileges.join(", ") },
];
const NEW_ROLE: NewRow = {
  label: "people.createRole",
  privilege: MANAGE,
  fields: [{ name: "name", label: "field.name", type: "text", required: true }, ...ROLE_FIELDS],
  command: (v) =>
    shellLine(["busbar", "role", "create", text(v.name) || "NAME"], {
      privilege: v.privileges,
    }),
  send: async (v) =>
    void unwrap(
      await api.POST("/api/v1/roles", {
        body: {
          name: text(v.name),
          privileges: (v.privileges ?? []) as Schema<"RoleRequest">["privileges"],
        },
      }),
    ),
};

export function RolesPane() {
  return (
    <ListPane
      list="roles"
      title="people.roles"
      actionable={(r) =>
        r.id && !r.built_in ? { kind: "roles", id: r.id, name: r.name } : undefined
      }
      columns={ROLE_COLUMNS}
      create={NEW_ROLE}
    />
  );
}

const BINDING_FIELDS: Field[] = [
  { name: "role", label: "people.role", type: "names", from: "roles", required: true },
  { name: "user", label: "field.user", type: "names", from: "users" },
  { name: "group", label: "field.orGroup", type: "names", from: "groups" },
  {
    name: "project",
    label: "people.inProject",
    type: "names",
    from: "projects",
    blank: "people.everywhere",
  },
  { name: "department", label: "people.orDepartment", type: "names", from: "departments" },
  { name: "site", label: "people.orSite", type: "names", from: "sites" },
  { name: "node", label: "people.orNode", type: "text" },
  { name: "gpu", label: "people.orGpu", type: "text", help: "people.gpuHelp" },
  { name: "pool", label: "people.orPool", type: "names", from: "pools" },
];

const BINDING_COLUMNS: Column<RowOf<"bindings">>[] = [
  { id: "role", label: "people.role", value: (b) => b.role },
  {
    id: "who",
    label: "people.who",
    value: (b) => b.user ?? (b.group ? `${t("field.group")} ${b.group}` : ""),
  },
  { id: "where", label: "people.where", value: placeText },
  {
    id: "since",
    label: "node.since",
    value: (b) => b.created_at ?? "",
    cell: (b) => dateTime(b.created_at),
  },
];
const NEW_BINDING: NewRow = {
  label: "people.createBinding",
  privilege: "members.manage",
  fields: BINDING_FIELDS,
  command: (v) =>
    shellLine(
      ["busbar", "role-binding", "create", text(v.role) || "ROLE"],
      Object.fromEntries(["user", "group", ...PLACES].map((n) => [n, v[n]])),
    ),
  send: async (v) =>
    void unwrap(
      await api.POST("/api/v1/role-bindings", {
        body: given(v) as Schema<"RoleBindingRequest">,
      }),
    ),
};

export function BindingsPane() {
  return (
    <ListPane
      list="bindings"
      title="people.bindings"
      actionable={bindingActionable}
      hasBulk
      columns={BINDING_COLUMNS}
      create={NEW_BINDING}
    />
  );
}
