// Forms of objects, whose fields the REST API describes.
import { catalogue } from "../text/catalogue";
import { coded, t } from "../text/text";
import type { Field, FieldValue, FormValues } from "../ui/fields";

interface ApiField {
  type: string | string[];
  description: string;
  enum?: string[];
  items?: { type?: string; enum?: string[] };
  minimum?: number;
  maximum?: number;
  writeOnly?: boolean;
}
export type ApiFields = Record<string, ApiField>;
export type Value = string | number | boolean | string[] | null | undefined;

interface Details {
  /** Keys of the labels are `${texts}.NAME`. Without one, the label is the name of the field. */
  texts: string;
  without: readonly string[];
  /** What the API does not say of a field. */
  more?: Record<string, Partial<Field>>;
}

export const isDuration = (name: string) => name.endsWith("_seconds");
const typeOf = (api: ApiField) => [api.type].flat()[0] ?? "string";
const isNullable = (api: ApiField) => api.type.includes("null");
const text = (value: unknown) => (typeof value === "string" ? value.trim() : "");
export const words = (value: unknown) =>
  text(value)
    .split(/[\s,]+/)
    .filter(Boolean);

/** Return the text of a field, without its unit. */
export function labelOf(texts: string, name: string): string {
  const plain = name.replace(/_seconds$/, "").replaceAll("_", " ");
  return coded(texts, name, plain.charAt(0).toUpperCase() + plain.slice(1));
}

const CONTROLS: Record<string, Field["type"]> = {
  boolean: "switch",
  integer: "number",
  number: "number",
};
function controlOf(api: ApiField): Pick<Field, "type" | "options" | "min" | "max"> {
  const options = (api.enum ?? api.items?.enum)?.filter(Boolean);
  if (options) return { type: api.enum ? "select" : "checks", options };
  return { type: CONTROLS[typeOf(api)] ?? "text", min: api.minimum, max: api.maximum };
}

function fieldOf(texts: string, name: string, api: ApiField, more: Partial<Field> = {}): Field {
  const [label, help] = [`${texts}.${name}`, `${texts}Help.${name}`];
  const hasHelp = help in catalogue || !(label in catalogue || more.label);
  return {
    name,
    label: () => labelOf(texts, name),
    ...controlOf(api),
    ...(hasHelp ? { help: () => coded(`${texts}Help`, name, api.description) } : {}),
    ...more,
  } as Field;
}

/** Return what an input shows of a value. */
function shown({ type }: Field, value: Value): FieldValue {
  if (type === "switch") return Boolean(value);
  if (Array.isArray(value)) return type === "checks" ? value : value.join(" ");
  return String(value ?? "");
}

/** Return what a request sends for the value of an input: an emptied duration is none. */
function sent({ name, type }: Field, api: ApiField, value: FieldValue | undefined): Value {
  const [kind, given] = [typeOf(api), text(value)];
  if (kind === "boolean") return Boolean(value);
  if (kind === "array") return type === "checks" ? (value as string[] | undefined) : words(value);
  if (kind !== "string" && (given || isDuration(name))) return Number(given);
  if (given) return given;
  if (api.enum && !api.enum.includes("")) return api.enum[0];
  if (isNullable(api)) return null;
  return kind === "string" && !api.writeOnly ? "" : undefined;
}

/** Return the fields of a form, and the ways from an object to its values and to a request. */
export function apiForm<Row extends object, Request extends object>(
  properties: ApiFields,
  { texts, without, more = {} }: Details,
) {
  const names = Object.keys(properties).filter((name) => !without.includes(name));
  const all = names.map((name) => {
    const api = properties[name] as ApiField;
    return { api, field: fieldOf(texts, name, api, more[name]) };
  });
  return {
    fields: all.map(({ field }) => field),
    valuesOf: (row: Partial<Row>): FormValues =>
      Object.fromEntries(
        all.map(({ field }) => [
          field.name,
          shown(field, (row as Record<string, Value>)[field.name]),
        ]),
      ),
    requestOf: (v: FormValues): Request =>
      Object.fromEntries(
        all.map(({ api, field }) => [field.name, sent(field, api, v[field.name])]),
      ) as Request,
  };
}

/** Say the unit of a duration. */
export const inSeconds = (texts: string, name: string) => (): string =>
  t("field.inSeconds", { name: labelOf(texts, name) });
