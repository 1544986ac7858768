// Settings of pools in their form, in commands and on their page.
import type { Pool, Schema } from "../api/client";
import apiFields from "../api/fields.json";
import { number } from "../model/format";
import { shellLine } from "../model/shellLine";
import { t } from "../text/text";
import type { Field, FieldValue, FormValues } from "../ui/fields";
import type { Property } from "../ui/Properties";
import {
  type ApiFields,
  type Value,
  apiForm,
  inSeconds,
  isDuration,
  labelOf,
  words,
} from "./apiForm";

const PROPERTIES: ApiFields = apiFields.pools.properties;
const TEXTS = "poolField";
const DURATIONS = Object.keys(PROPERTIES).filter(isDuration);
const FORM = apiForm<Pool, Schema<"PatchedPoolSettings">>(PROPERTIES, {
  texts: TEXTS,
  without: ["name", "labels"],
  more: Object.fromEntries(DURATIONS.map((name) => [name, { label: inSeconds(TEXTS, name) }])),
});
export const { fields: POOL_FIELDS, valuesOf: poolValues, requestOf: poolSettings } = FORM;

/** Those that affect more than the pool: a role in one pool does not permit to change them. */
export const WIDER_POOL_FIELDS = ["projects", "fallbacks", "required_isolation", "admit_new_gpus"];
/** Options of `busbar` that are not called like the field. */
const OPTIONS: Record<string, string> = {
  policies: "policy",
  projects: "project",
  fallbacks: "fallback",
};
const optionOf = ({ name }: Field) =>
  OPTIONS[name] ?? name.replace(/_seconds$/, "").replaceAll("_", "-");

function given({ name, options, type }: Field, value: FieldValue | undefined) {
  if (isDuration(name)) return value ? `${value}s` : "";
  if (type === "select" && value === options?.[0]) return "";
  return PROPERTIES[name]?.type === "array" && type === "text" ? words(value) : value;
}

/** The command that creates a pool of these values. */
export const poolCommand = (v: FormValues): string =>
  shellLine(
    ["busbar", "pool", "create", String(v.name || "NAME")],
    Object.fromEntries(POOL_FIELDS.map((f) => [optionOf(f), given(f, v[f.name])])),
  );

function inWords(name: string, value: Value): string {
  if (typeof value === "boolean") return t(value ? "common.yes" : "common.no");
  if (typeof value === "number")
    return isDuration(name) ? t("pool.seconds", { seconds: number(value) }) : number(value);
  if (!Array.isArray(value)) return value ?? "";
  return value.join(", ") || (name === "projects" ? t("pool.allProjects") : "");
}

/** What the page of a pool shows. */
export const poolProperties = (pool: Pool): Property[] =>
  POOL_FIELDS.map(
    ({ name }): Property => [
      labelOf(TEXTS, name),
      inWords(name, (pool as unknown as Record<string, Value>)[name]),
    ],
  );
