// Inputs of a form that is described by its fields.
import {
  Checkbox,
  FormSelect,
  FormSelectOption,
  Switch,
  TextArea,
  TextInput,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { type ListName, listQuery } from "../api/lists";
import { type Key, type Phrase, say, t } from "../text/text";

export type FieldValue = string | boolean | string[];
export type FormValues = Record<string, FieldValue>;
export const isSame = (a: FieldValue | undefined, b: FieldValue | undefined) =>
  JSON.stringify(a ?? "") === JSON.stringify(b ?? "");

export interface Field {
  name: string;
  label: Phrase;
  /** `labels` are lines of KEY=VALUE; `names` offers the names of a list. */
  type: "text" | "number" | "area" | "labels" | "switch" | "select" | "names" | "checks" | "moment";
  required?: boolean;
  help?: Phrase;
  options?: readonly string[];
  min?: number;
  max?: number;
  /** What a choice shows for an option, in place of the option. */
  textOf?: (option: string) => string;
  /** Whether the other values make the field meaningless. */
  isHidden?: (values: FormValues) => boolean;
  from?: ListName;
  /** Text of the choice of nothing. */
  blank?: Key;
}

/** A field and what is wrong with its value; empty if nothing is. */
interface Outcome {
  field: Field;
  error: string;
}
interface InputProps extends Outcome {
  value: FieldValue | undefined;
  onChange: (value: FieldValue) => void;
  autoFocus?: boolean;
}

export const fieldId = ({ name }: Field) => `field-${name}`;
export const helpId = ({ name }: Field) => `help-${name}`;

/** Properties of what is described by what is wrong with its value. */
export const describedBy = ({ field, error }: Outcome) =>
  error ? { "aria-describedby": helpId(field) } : {};

/** Properties of an input whose value was refused. */
export const refused = (props: Outcome) =>
  props.error ? { validated: "error" as const, ...describedBy(props) } : {};

function NameSelect(props: InputProps) {
  const { field } = props;
  const list = useQuery(listQuery(field.from ?? "projects"));
  const names = (list.data ?? []).map((row) => ("username" in row ? row.username : nameOf(row)));
  return <Choice {...props} options={names.sort()} />;
}
const nameOf = (row: object) => ("name" in row ? String(row.name) : "");

function Choice(props: InputProps & { options: readonly string[] }) {
  const { field, value, onChange, options } = props;
  return (
    <FormSelect
      id={fieldId(field)}
      value={value ?? ""}
      onChange={(_, v) => onChange(v)}
      isRequired={field.required}
      {...refused(props)}
    >
      {!(field.required && value) && (
        <FormSelectOption key="" value="" label={field.blank ? t(field.blank) : "–"} />
      )}
      {options.map((o) => (
        <FormSelectOption key={o} value={o} label={field.textOf?.(o) ?? o} />
      ))}
    </FormSelect>
  );
}

function Checks({ field, value, onChange }: InputProps) {
  const chosen = Array.isArray(value) ? value : [];
  return (
    <div className="bb-checks">
      {(field.options ?? []).map((o) => (
        <Checkbox
          key={o}
          id={`${fieldId(field)}-${o}`}
          label={o}
          isChecked={chosen.includes(o)}
          onChange={(_, on) => onChange(on ? [...chosen, o] : chosen.filter((x) => x !== o))}
        />
      ))}
    </div>
  );
}

function OnOff(props: InputProps) {
  const { field, value, onChange, error } = props;
  return (
    <Switch
      id={fieldId(field)}
      isChecked={Boolean(value)}
      aria-label={say(field.label)}
      aria-invalid={error !== ""}
      {...describedBy(props)}
      onChange={(_, on) => onChange(on)}
    />
  );
}

function Area(props: InputProps) {
  const { field, value, onChange } = props;
  return (
    <TextArea
      id={fieldId(field)}
      value={typeof value === "string" ? value : ""}
      rows={3}
      placeholder={field.type === "labels" ? "rack=b12" : undefined}
      {...refused(props)}
      onChange={(_, v) => onChange(v)}
    />
  );
}

const limitsOf = ({ type, min, max }: Field) =>
  type === "number" ? { step: "any", min, max } : {};

export function FieldInput(props: InputProps) {
  const { field, value, onChange, autoFocus } = props;
  const id = fieldId(field);
  const text = typeof value === "string" ? value : "";
  if (field.type === "names") return <NameSelect {...props} />;
  if (field.type === "select") return <Choice {...props} options={field.options ?? []} />;
  if (field.type === "checks") return <Checks {...props} />;
  if (field.type === "switch") return <OnOff {...props} />;
  if (field.type === "area" || field.type === "labels") return <Area {...props} />;
  const type = field.type === "moment" ? "datetime-local" : field.type;
  return (
    <TextInput
      id={id}
      type={type}
      {...limitsOf(field)}
      {...refused(props)}
      value={text}
      isRequired={field.required}
      autoFocus={autoFocus}
      autoComplete="off"
      onChange={(_, v) => onChange(v)}
    />
  );
}
