// The resize of an allocation: by its form, by the edge of its partition, and its withdrawal.
import { refresh } from "../api/cache";
import type { Allocation } from "../api/client";
import { type Read, changeObject, readObject } from "../api/objects";
import { MODES, type Mode, resizeCurl } from "../model/allocationRequest";
import { allocationName, sizeText } from "../model/allocationNames";
import { grantedSize } from "../model/grantedSize";
import type { Actionable } from "../model/kinds";
import { coded, t } from "../text/text";
import { FormDialog } from "../ui/FormDialog";
import type { Field, FormValues } from "../ui/fields";
import { toast } from "../ui/toasts";
import { openDialog } from "./dialogs";
import { type Edit, Editing } from "./edit";

const GIB = 2 ** 30;
const text = (value: unknown) => (typeof value === "string" ? value : "");
const isWhole = (v: FormValues) => v.compute_mode === "exclusive";
const SIZE_FIELDS: Field[] = [
  {
    name: "percent",
    label: "field.percent",
    type: "number",
    help: "help.percent",
    isHidden: isWhole,
  },
  {
    name: "memory_bytes",
    label: "field.memoryGib",
    type: "number",
    help: "help.memoryGib",
    isHidden: isWhole,
  },
  {
    name: "compute_mode",
    label: "allocate.mode",
    type: "select",
    required: true,
    options: MODES,
    textOf: (mode) => coded("compute_mode.help", mode, mode),
  },
];
type SizeOf = Pick<Allocation, "percent" | "memory_bytes" | "compute_mode">;
const valuesOf = (a: SizeOf): FormValues => ({
  percent: String(a.percent ?? ""),
  memory_bytes: String((a.memory_bytes ?? 0) / GIB),
  compute_mode: a.compute_mode ?? "shared",
});
const RESIZING: Edit<"allocations"> = {
  fields: SIZE_FIELDS,
  values: valuesOf,
  settings: (v) => ({
    compute_mode: text(v.compute_mode) as Mode,
    ...(isWhole(v)
      ? {}
      : {
          percent: Number(text(v.percent)),
          memory_bytes: Math.round(Number(text(v.memory_bytes)) * GIB),
        }),
  }),
};

/** Say that the resize is done, or that it waits. */
function report(action: string, row: Allocation) {
  const name = allocationName(row);
  if (row.resize?.state === "queued") toast("info", t("resize.waits", { name }), row.resize.reason);
  else toast("success", t("result.done", { action, name }));
  refresh();
}

/** What happens to the resize that waits, if there is one. */
const replacedText = (a: Allocation): string =>
  a.resize?.state === "queued" ? t("resize.replaces", { size: sizeText(a) }) : "";

/** The values of the present size, which are not those of the request while it waits. */
const presentValues = (requested: FormValues, a: Allocation): FormValues =>
  a.resize?.state === "queued" ? valuesOf(grantedSize(a)) : requested;

export interface Proposal {
  /** What the form shows, if not the present size. */
  wanted?: FormValues;
  /** What is asked, before what is said of a resize that waits. */
  question?: string;
  fields?: Field[];
  closed?: () => void;
}

/** Ask for a size; a refusal of the server is shown in the dialog, which stays open. */
export function openResize(read: Read<"allocations">, proposal: Proposal = {}) {
  const { wanted = {}, question = "", fields = SIZE_FIELDS, closed } = proposal;
  const { row } = read;
  const action = t("action.resize");
  const editing = new Editing("allocations", row.id, RESIZING, read);
  const description = [question, replacedText(row)].filter(Boolean).join(" ");
  openDialog((close) => (
    <FormDialog
      title={t("form.title", { action, name: allocationName(row) })}
      {...(description ? { description } : {})}
      fields={fields}
      initial={{ ...presentValues(editing.shown, row), ...wanted }}
      isUnchanged={(v) => editing.changed(v).length === 0}
      verb={action}
      command={(v) => resizeCurl(row.id, editing.change(v), location.origin)}
      submit={async (v) => {
        const changed = await editing.send(v);
        if (changed) report(action, changed);
      }}
      close={() => {
        closed?.();
        close();
      }}
    />
  ));
}

export const resizeAllocation = async (x: Actionable) =>
  openResize(await readObject("allocations", x.id));

/**
 * Ask for the present size in place of the one that waits. The version keeps a resize that is
 * granted at the same time from being taken back.
 */
export async function withdrawResize(a: Allocation) {
  const changed = await changeObject("allocations", a.id, grantedSize(a), `"${a.version}"`);
  report(t("resize.withdraw"), changed);
}
