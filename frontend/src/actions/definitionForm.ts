// Fields of the form of an alarm definition, and the request of its values.
import type { AlarmDefinition, Schema } from "../api/client";
import type { Field, FormValues } from "../ui/fields";

type Request = Schema<"AlarmDefinitionRequest">;
type ChoiceOf<N extends keyof Request> = Exclude<Request[N], undefined>;

const CONDITIONS = [
  "state",
  "metric",
  "event",
  "xid",
  "certificate_age",
  "queue_wait",
  "idle_held",
] as const;
const PLACES = ["site", "node", "gpu", "pool"] as const;
const TEXTS = ["name", "notes", "metric", "event_kind", "webhook_url", "script"] as const;
const SECONDS = ["window_seconds", "raise_after_seconds", "clear_after_seconds"] as const;

const text = (value: unknown) => (typeof value === "string" ? value.trim() : "");
const numberOrNull = (value: unknown) => (text(value) === "" ? null : Number(text(value)));
const words = (value: unknown) =>
  text(value)
    .split(/[\s,]+/)
    .filter(Boolean);

export const FIELDS: Field[] = [
  { name: "name", label: "field.name", type: "text", required: true },
  {
    name: "severity",
    label: "alarm.severity",
    type: "select",
    options: ["info", "warning", "critical"],
    required: true,
  },
  {
    name: "object_kind",
    label: "alarmField.object_kind",
    type: "select",
    options: ["node", "gpu", "allocation", "appliance"],
    required: true,
  },
  {
    name: "condition",
    label: "alarmField.condition",
    type: "select",
    options: CONDITIONS,
    required: true,
  },
  { name: "states", label: "alarmField.states", type: "text" },
  { name: "metric", label: "alarmField.metric", type: "text" },
  {
    name: "comparison",
    label: "alarmField.comparison",
    type: "select",
    options: ["above", "below"],
  },
  {
    name: "threshold",
    label: "alarmField.threshold",
    type: "number",
    help: "alarmField.thresholdHelp",
  },
  { name: "clear_threshold", label: "alarmField.clear_threshold", type: "number" },
  { name: "event_kind", label: "alarmField.event_kind", type: "text" },
  {
    name: "xid_class",
    label: "alarmField.xid_class",
    type: "select",
    options: ["memory", "bus", "engine", "application", "any"],
  },
  { name: "window_seconds", label: "alarmField.window_seconds", type: "number" },
  { name: "raise_after_seconds", label: "alarmField.raise_after_seconds", type: "number" },
  { name: "clear_after_seconds", label: "alarmField.clear_after_seconds", type: "number" },
  { name: "site", label: "field.site", type: "names", from: "sites", blank: "common.none" },
  { name: "node", label: "kind.nodes", type: "text" },
  { name: "gpu", label: "alarmField.gpu", type: "text" },
  { name: "pool", label: "field.pool", type: "names", from: "pools", blank: "common.none" },
  { name: "mail_users", label: "alarmField.mail_users", type: "text" },
  { name: "webhook_url", label: "alarmField.webhook_url", type: "text" },
  { name: "webhook_secret", label: "alarmField.webhook_secret", type: "text" },
  { name: "script", label: "alarmField.script", type: "text" },
  { name: "enters_maintenance", label: "alarmField.enters_maintenance", type: "switch" },
  { name: "notes", label: "field.notes", type: "area" },
];

const shown = (value: unknown): string =>
  Array.isArray(value) ? value.join(" ") : value === null || value === undefined ? "" : `${value}`;

/** Return what the form shows of a definition. The key of its webhook is never shown. */
export function valuesOf(row: Partial<AlarmDefinition>): FormValues {
  return Object.fromEntries(
    FIELDS.map(({ name, type }) => {
      const value = name in row ? row[name as keyof AlarmDefinition] : "";
      return [name, type === "switch" ? Boolean(value) : shown(value)];
    }),
  );
}

/** Return the request of the values. Fields that the condition does not use become empty. */
export function requestOf(v: FormValues): Request {
  return {
    ...(Object.fromEntries(TEXTS.map((name) => [name, text(v[name])])) as { name: string }),
    ...Object.fromEntries(PLACES.map((name) => [name, text(v[name]) || null])),
    ...Object.fromEntries(SECONDS.map((name) => [name, Number(text(v[name]) || 0)])),
    severity: text(v.severity) as Request["severity"],
    object_kind: text(v.object_kind) as Request["object_kind"],
    condition: text(v.condition) as Request["condition"],
    states: words(v.states) as ChoiceOf<"states">,
    comparison: (text(v.comparison) || "above") as ChoiceOf<"comparison">,
    xid_class: text(v.xid_class) as ChoiceOf<"xid_class">,
    threshold: numberOrNull(v.threshold),
    clear_threshold: numberOrNull(v.clear_threshold),
    mail_users: words(v.mail_users),
    enters_maintenance: Boolean(v.enters_maintenance),
    ...(text(v.webhook_secret) ? { webhook_secret: text(v.webhook_secret) } : {}),
  };
}
