// Panes of users, groups, roles, role bindings and tokens.
import { Label } from "@patternfly/react-core";
import { Secret } from "../actions/forms";
import { ROLE_FIELDS } from "../actions/listedForms";
import { PRIVILEGES } from "../actions/privileges";
import { type Schema, api, idempotencyKey, unwrap } from "../api/client";
import type { RowOf } from "../api/lists";
import { ago, dateTime } from "../model/format";
import { shellLine } from "../model/shellLine";
import type { Column } from "../tables/DataTable";
import { ListPane } from "../tables/ListPane";
import { t } from "../text/text";
import type { FormValues, Field } from "../ui/fields";
import { bindingActionable } from "./BindingTable";
import { PLACES, placeText } from "./place";

const text = (value: unknown) => (typeof value === "string" ? value : "");
const words = (value: unknown) =>
  text(value)
    .split(/[\s,]+/)
    .filter(Boolean);
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

export function RolesPane() {
  return (
    <ListPane
      list="roles"
      title="people.roles"
      actionable={(r) =>
        r.id && !r.built_in ? { kind: "roles", id: r.id, name: r.name } : undefined
      }
      columns={[
        { id: "name", label: "field.name", value: (r) => r.name },
        {
          id: "kind",
          label: "people.kind",
          value: (r) => t(r.built_in ? "people.builtIn" : "people.custom"),
        },
        { id: "privileges", label: "access.privileges", value: (r) => r.privileges.join(", ") },
      ]}
      create={{
        label: "people.createRole",
        privilege: MANAGE,
        fields: [
          { name: "name", label: "field.name", type: "text", required: true },
          ...ROLE_FIELDS,
        ],
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
      }}
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

export function BindingsPane() {
  return (
    <ListPane
      list="bindings"
      title="people.bindings"
      actionable={bindingActionable}
      hasBulk
      columns={[
        { id: "role", label: "people.role", value: (b) => b.role },
        {
          id: "who",
          label: "people.who",
          value: (b) => b.user ?? (b.group ? `${t("field.group")} ${b.group}` : ""),
        },
        {
          id: "where",
          label: "people.where",
          value: placeText,
        },
        {
          id: "since",
          label: "node.since",
          value: (b) => b.created_at ?? "",
          cell: (b) => dateTime(b.created_at),
        },
      ]}
      create={{
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
      }}
    />
  );
}

const DAY = 86_400;
export function TokensPane() {
  return (
    <ListPane
      list="tokens"
      title="people.tokens"
      actionable={(k) => ({ kind: "tokens", id: k.id, name: k.name })}
      hasBulk
      columns={[
        { id: "name", label: "field.name", value: (k) => k.name },
        { id: "user", label: "field.user", value: (k) => k.user },
        {
          id: "scopes",
          label: "people.scopes",
          value: (k) => k.scopes.join(", ") || t("people.allScopes"),
        },
        {
          id: "networks",
          label: "people.networks",
          value: (k) => k.networks.join(", ") || t("people.anywhere"),
        },
        {
          id: "used",
          label: "people.lastUsed",
          value: (k) => k.last_used_at ?? "",
          cell: (k) =>
            k.last_used_at ? `${ago(k.last_used_at)}, ${k.last_used_address}` : t("common.never"),
        },
        {
          id: "expires",
          label: "people.expires",
          value: (k) => k.expires_at ?? "",
          cell: (k) => (k.expires_at ? dateTime(k.expires_at) : t("common.never")),
        },
      ]}
      create={{
        label: "people.createToken",
        privilege: "account.self",
        fields: [
          { name: "name", label: "field.name", type: "text", required: true },
          { name: "days", label: "people.days", type: "number" },
          { name: "networks", label: "people.networks", type: "text", help: "people.networksHelp" },
          {
            name: "scopes",
            label: "people.scopes",
            type: "checks",
            options: PRIVILEGES,
            help: "people.scopesHelp",
          },
        ],
        initial: { days: "90" },
        send: async (v) => {
          const token = unwrap(
            await api.POST("/api/v1/tokens", {
              body: {
                name: text(v.name),
                ...(text(v.days) ? { lifetime_seconds: Math.round(Number(v.days) * DAY) } : {}),
                ...(words(v.networks).length > 0 ? { networks: words(v.networks) } : {}),
                ...(Array.isArray(v.scopes) && v.scopes.length > 0 ? { scopes: v.scopes } : {}),
              } as Schema<"ApiTokenRequest">,
              headers: idempotencyKey(),
            }),
          );
          return <Secret label="secret.once" value={token.token} />;
        },
      }}
    />
  );
}
