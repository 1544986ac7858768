// Fields of the form of an alarm definition, and the request of its values.
import type { AlarmDefinition, Schema } from "../api/client";
import apiFields from "../api/fields.json";
import { apiForm } from "./apiForm";

// Its notes come last.
const { name, notes, ...others } = apiFields["alarm-definitions"].properties;
export const {
  fields: FIELDS,
  valuesOf,
  requestOf,
} = apiForm<AlarmDefinition, Schema<"AlarmDefinitionRequest">>(
  { name, ...others, notes },
  {
    texts: "alarmField",
    without: ["enabled"],
    more: {
      name: { label: "field.name", required: true },
      severity: { label: "alarm.severity", required: true },
      object_kind: { required: true },
      condition: { required: true },
      states: { type: "text" },
      site: { label: "field.site", type: "names", from: "sites", blank: "common.none" },
      node: { label: "kind.nodes" },
      pool: { label: "field.pool", type: "names", from: "pools", blank: "common.none" },
      notes: { label: "field.notes", type: "area" },
    },
  },
);
