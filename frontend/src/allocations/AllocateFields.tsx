// Fields of the dialog that allocates GPUs.
import {
  Checkbox,
  FormSelect,
  FormSelectOption,
  Grid,
  GridItem,
  NumberInput,
  Slider,
  TextArea,
  TextInput,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { listQuery } from "../api/lists";
import { useRows } from "../api/queries";
import { gib } from "../model/format";
import { MODES, type Wanted, isWhole } from "../model/allocationRequest";
import { coded, counted, t } from "../text/text";
import { FieldGroup } from "../ui/FieldGroup";
import { type Field, fieldId, refused } from "../ui/fields";
import { type ErrorOf, outcome } from "../ui/refusal";

const HOURS = [1, 4, 8, 24, 72, 168];
const MAX_GPUS = 16;
const whole = (text: string, min: number, max: number) =>
  Math.min(max, Math.max(min, Math.round(Number(text)) || min));

const modes = () =>
  MODES.map((mode): [string, string] => [mode, coded("compute_mode.help", mode, mode)]);

const FIELDS = {
  name: { name: "name", label: "field.name", type: "text" },
  pool: { name: "pool", label: "field.pool", type: "select" },
  project: { name: "project", label: "field.project", type: "select" },
  count: { name: "gpu_count", label: "allocate.gpus", type: "number" },
  hours: { name: "lifetime_seconds", label: "allocate.for", type: "select" },
  mode: { name: "compute_mode", label: "allocate.mode", type: "select" },
  share: { name: "percent", label: "allocate.percent", type: "number" },
  memory: { name: "memory_bytes", label: "allocate.memory", type: "number" },
  model: { name: "model", label: "allocate.model", type: "text" },
  labels: { name: "selector", label: "allocate.labels", type: "labels" },
  priority: { name: "priority", label: "allocate.priority", type: "number" },
} satisfies Record<string, Field>;
export const ALLOCATE_FIELDS: Field[] = Object.values(FIELDS);

interface FieldsProps {
  wanted: Wanted;
  set: (fresh: Partial<Wanted>) => void;
  errorOf: ErrorOf;
}

interface ChoiceProps<V extends string> {
  field: Field;
  error: string;
  value: V;
  options: [value: string, text: string][];
  onChange: (value: V) => void;
}

function Choice<V extends string>({ value, options, onChange, ...of }: ChoiceProps<V>) {
  return (
    <FieldGroup {...of}>
      <FormSelect
        id={fieldId(of.field)}
        value={value}
        onChange={(_, v) => onChange(v as V)}
        {...refused(of)}
      >
        {options.map(([v, text]) => (
          <FormSelectOption key={v} value={v} label={text} />
        ))}
      </FormSelect>
    </FieldGroup>
  );
}

const same = (names: string[]): [string, string][] => names.map((n) => [n, n]);

function Share({ wanted: w, set, errorOf }: FieldsProps) {
  const of = outcome(FIELDS.share, errorOf);
  const gpus = useRows("gpu").filter((g) => g.pool === w.pool);
  const largest = Math.max(0, ...gpus.map((g) => g.memory_bytes));
  const label = t("allocate.share", { percent: w.percent });
  return (
    <FieldGroup
      {...of}
      isGroup
      label={
        largest
          ? `${label}, ${t("allocate.upTo", { size: gib((largest * w.percent) / 100) })}`
          : label
      }
    >
      <Slider
        id={fieldId(of.field)}
        value={w.percent}
        min={1}
        max={100}
        step={1}
        thumbAriaLabel={t("allocate.percent")}
        onChange={(_, slid, typed) => set({ percent: whole(String(typed ?? slid), 1, 100) })}
        isInputVisible
        showBoundaries={false}
        inputValue={w.percent}
        inputLabel="%"
        inputAriaLabel={t("allocate.percent")}
      />
    </FieldGroup>
  );
}

function PlaceFields({ wanted: w, set, errorOf }: FieldsProps) {
  const pools = useRows("pool").map((p) => p.name);
  const projects = (useQuery(listQuery("projects")).data ?? [{ name: w.project }]).map(
    (p) => p.name,
  );
  return (
    <>
      <GridItem>
        <Choice
          {...outcome(FIELDS.pool, errorOf)}
          value={w.pool}
          options={same(pools)}
          onChange={(pool) => set({ pool })}
        />
      </GridItem>
      <GridItem>
        <Choice
          {...outcome(FIELDS.project, errorOf)}
          value={w.project}
          options={same(projects)}
          onChange={(project) => set({ project })}
        />
      </GridItem>
    </>
  );
}

function CountField({ wanted: w, set, errorOf }: FieldsProps) {
  const of = outcome(FIELDS.count, errorOf);
  return (
    <FieldGroup {...of} isGroup>
      <NumberInput
        id={fieldId(of.field)}
        validated={of.error ? "error" : "default"}
        value={w.count}
        min={1}
        max={MAX_GPUS}
        inputAriaLabel={t("allocate.count")}
        minusBtnAriaLabel={t("allocate.fewer")}
        plusBtnAriaLabel={t("allocate.moreGpus")}
        onMinus={() => set({ count: Math.max(1, w.count - 1) })}
        onPlus={() => set({ count: Math.min(MAX_GPUS, w.count + 1) })}
        onChange={(e) => set({ count: whole(e.currentTarget.value, 1, MAX_GPUS) })}
      />
    </FieldGroup>
  );
}

function NameField({ wanted: w, set, errorOf }: FieldsProps) {
  return (
    <FieldGroup {...outcome(FIELDS.name, errorOf)}>
      <TextInput
        id={fieldId(FIELDS.name)}
        {...refused(outcome(FIELDS.name, errorOf))}
        value={w.name}
        onChange={(_, name) => set({ name })}
        placeholder={t("allocate.nameExample")}
        autoFocus
      />
    </FieldGroup>
  );
}

export function BasicFields({ wanted: w, set, errorOf }: FieldsProps) {
  return (
    <>
      <NameField {...{ wanted: w, set, errorOf }} />
      <Grid hasGutter md={6}>
        <PlaceFields {...{ wanted: w, set, errorOf }} />
        <GridItem>
          <CountField {...{ wanted: w, set, errorOf }} />
        </GridItem>
        <GridItem>
          <Choice
            {...outcome(FIELDS.hours, errorOf)}
            value={String(w.hours)}
            options={HOURS.map((h) => [String(h), counted("count.hour", h)])}
            onChange={(hours) => set({ hours: Number(hours) })}
          />
        </GridItem>
      </Grid>
      <Choice
        {...outcome(FIELDS.mode, errorOf)}
        value={w.mode}
        options={modes()}
        onChange={(mode) => set({ mode })}
      />
      {!isWhole(w) && <Share {...{ wanted: w, set, errorOf }} />}
    </>
  );
}

function MemoryField({ wanted: w, set, errorOf }: FieldsProps) {
  return (
    <FieldGroup {...outcome(FIELDS.memory, errorOf)}>
      <TextInput
        id={fieldId(FIELDS.memory)}
        {...refused(outcome(FIELDS.memory, errorOf))}
        type="number"
        min={0}
        step="any"
        value={w.memoryGib}
        onChange={(_, memoryGib) => set({ memoryGib })}
      />
    </FieldGroup>
  );
}

function LabelsField({ wanted: w, set, errorOf }: FieldsProps) {
  return (
    <FieldGroup {...outcome(FIELDS.labels, errorOf)}>
      <TextArea
        id={fieldId(FIELDS.labels)}
        {...refused(outcome(FIELDS.labels, errorOf))}
        rows={2}
        value={w.labels}
        placeholder="site=berlin"
        onChange={(_, labels) => set({ labels })}
      />
    </FieldGroup>
  );
}

function OrderFields({ wanted: w, set, errorOf }: FieldsProps) {
  return (
    <div className="bb-stack">
      <FieldGroup {...outcome(FIELDS.priority, errorOf)}>
        <TextInput
          id={fieldId(FIELDS.priority)}
          {...refused(outcome(FIELDS.priority, errorOf))}
          type="number"
          value={w.priority}
          onChange={(_, v) => set({ priority: whole(v, 0, 200) })}
        />
      </FieldGroup>
      <Checkbox
        id="same-node"
        label={t("allocate.sameNode")}
        isChecked={w.sameNode}
        onChange={(_, sameNode) => set({ sameNode })}
      />
      <Checkbox
        id="preemptible"
        label={t("allocate.preemptible")}
        isChecked={w.preemptible}
        onChange={(_, preemptible) => set({ preemptible })}
      />
    </div>
  );
}

export function MoreFields({ wanted: w, set, errorOf }: FieldsProps) {
  return (
    <Grid hasGutter md={6}>
      {!isWhole(w) && (
        <GridItem>
          <MemoryField {...{ wanted: w, set, errorOf }} />
        </GridItem>
      )}
      <GridItem>
        <FieldGroup {...outcome(FIELDS.model, errorOf)}>
          <TextInput
            id={fieldId(FIELDS.model)}
            {...refused(outcome(FIELDS.model, errorOf))}
            value={w.model}
            onChange={(_, model) => set({ model })}
          />
        </FieldGroup>
      </GridItem>
      <GridItem>
        <LabelsField {...{ wanted: w, set, errorOf }} />
      </GridItem>
      <GridItem>
        <OrderFields {...{ wanted: w, set, errorOf }} />
      </GridItem>
    </Grid>
  );
}
