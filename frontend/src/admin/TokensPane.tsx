// Pane of the API tokens that the user may see.
import { Secret } from "../actions/forms";
import { PRIVILEGES } from "../actions/privileges";
import { type Schema, api, idempotencyKey, unwrap } from "../api/client";
import type { RowOf } from "../api/lists";
import { ago, dateTime } from "../model/format";
import type { Column } from "../tables/columns";
import { ListPane, type NewRow } from "../tables/ListPane";
import { t } from "../text/text";
import type { FormValues } from "../ui/fields";

const DAY = 86_400;
const text = (value: unknown) => (typeof value === "string" ? value : "");
const words = (value: unknown) =>
  text(value)
    .split(/[\s,]+/)
    .filter(Boolean);

const COLUMNS: Column<RowOf<"tokens">>[] = [
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
];

const requestOf = (v: FormValues) =>
  ({
    name: text(v.name),
    ...(text(v.days) ? { lifetime_seconds: Math.round(Number(v.days) * DAY) } : {}),
    ...(words(v.networks).length > 0 ? { networks: words(v.networks) } : {}),
    ...(Array.isArray(v.scopes) && v.scopes.length > 0 ? { scopes: v.scopes } : {}),
  }) as Schema<"ApiTokenRequest">;

const NEW_TOKEN: NewRow = {
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
      await api.POST("/api/v1/tokens", { body: requestOf(v), headers: idempotencyKey() }),
    );
    return <Secret label="secret.once" value={token.token} />;
  },
};

export function TokensPane() {
  return (
    <ListPane
      list="tokens"
      title="people.tokens"
      actionable={(k) => ({ kind: "tokens", id: k.id, name: k.name })}
      hasBulk
      columns={COLUMNS}
      create={NEW_TOKEN}
    />
  );
}
