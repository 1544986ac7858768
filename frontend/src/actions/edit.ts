// The one way to edit an object: its form sends only what was changed, of the version that it shows.
import { Problem } from "../api/client";
import {
  type ChangeOf,
  type EditableKind,
  type ObjectOf,
  type Read,
  changeObject,
  changesBy,
  readObject,
} from "../api/objects";
import type { Actionable } from "../model/kinds";
import type { Key } from "../text/text";
import { Conflict } from "../ui/Conflict";
import { type Field, type FormValues, isSame } from "../ui/fields";
import type { FormDialogProps } from "../ui/FormDialog";
import { openForm } from "./openForm";

const STALE = 412;
const ATTEMPTS = 5;

export interface Edit<K extends EditableKind> {
  /** Named as what they change in the request. */
  fields: Field[];
  /** What the form shows of an object. */
  values: (row: ObjectOf<K>) => FormValues;
  /** The request of all values. */
  settings: (values: FormValues) => ChangeOf<K>;
  command?: (change: ChangeOf<K>) => string;
}
type Dialog = Partial<Pick<FormDialogProps, "description" | "verb">>;

/** An object in a form: as it was read, and what the form would change. */
export class Editing<K extends EditableKind> {
  constructor(
    private readonly kind: K,
    private readonly id: string,
    private readonly edit: Edit<K>,
    private read: Read<K>,
  ) {}

  /** What the form showed when the object was read. */
  get shown(): FormValues {
    return this.edit.values(this.read.row);
  }

  /** Fields with another value than the object. */
  changed(values: FormValues, shown = this.shown): Field[] {
    return this.edit.fields.filter(({ name }) => !isSame(values[name], shown[name]));
  }

  change(values: FormValues, shown = this.shown): ChangeOf<K> {
    const names = this.changed(values, shown).map((f) => f.name);
    const all = Object.entries(this.edit.settings(values));
    return Object.fromEntries(all.filter(([name]) => names.includes(name))) as ChangeOf<K>;
  }

  /**
   * Send what was changed. What others have changed meanwhile is kept; throws Conflict if it is
   * the same. Returns the changed object. After another failure the form still belongs to what was read before.
   */
  async send(values: FormValues): Promise<ObjectOf<K> | undefined> {
    let [read, wanted] = [this.read, values];
    for (let left = ATTEMPTS; ; left -= 1) {
      const shown = this.edit.values(read.row);
      if (this.changed(wanted, shown).length === 0) return undefined;
      try {
        return await changeObject(this.kind, this.id, this.change(wanted, shown), read.version);
      } catch (problem) {
        if (!(problem instanceof Problem && problem.status === STALE && left > 1)) throw problem;
      }
      const { version } = read;
      read = await readObject(this.kind, this.id);
      const merged = this.merge(wanted, shown, this.edit.values(read.row));
      wanted = merged.values;
      if (merged.disputed.length === 0) continue;
      this.read = read;
      throw new Conflict(await changesBy(this.id, version, read.version), merged.disputed, wanted);
    }
  }

  /** Return the values with what only others have changed, and the fields that both have. */
  private merge(values: FormValues, before: FormValues, theirs: FormValues) {
    const mine = this.changed(values, before);
    const others = this.edit.fields.filter((field) => !mine.includes(field));
    const disputed = mine
      .filter(({ name }) => !isSame(theirs[name], before[name]))
      .filter(({ name }) => !isSame(theirs[name], values[name]));
    const sideOf = (side: FormValues, { name }: Field) => side[name] ?? "";
    return {
      values: { ...values, ...Object.fromEntries(others.map((f) => [f.name, sideOf(theirs, f)])) },
      disputed: disputed.map((field) => ({
        field,
        yours: sideOf(values, field),
        theirs: sideOf(theirs, field),
      })),
    };
  }
}

/** Turn a switch of an object, in the version that a list shows. */
export async function turn<K extends EditableKind>(
  kind: K,
  { id, version }: Actionable,
  field: Field & { name: keyof ChangeOf<K> & keyof ObjectOf<K> },
  on: boolean,
) {
  const { name } = field;
  const edit: Edit<K> = {
    fields: [field],
    values: (row) => ({ [name]: Boolean(row[name]) }),
    settings: (v) => v as ChangeOf<K>,
  };
  const shown = { row: { [name]: !on } as unknown as ObjectOf<K>, version: `"${version}"` };
  const read = version === undefined ? await readObject(kind, id) : shown;
  return new Editing(kind, id, edit, read).send({ [name]: on });
}

/** Read an object and open the form of its values. */
export async function openEdit<K extends EditableKind>(
  kind: K,
  x: Actionable,
  edit: Edit<K>,
  label: Key = "action.edit",
  dialog: Dialog = {},
) {
  const editing = new Editing(kind, x.id, edit, await readObject(kind, x.id));
  const { command } = edit;
  openForm(x, label, {
    ...dialog,
    fields: edit.fields,
    initial: editing.shown,
    isUnchanged: (v) => editing.changed(v).length === 0,
    submit: async (v) => void (await editing.send(v)),
    ...(command ? { command: (v) => command(editing.change(v)) } : {}),
  });
}
