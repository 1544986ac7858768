// Fields of the dialog that allocates GPUs.
import {
  Checkbox,
  FormGroup,
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

const HOURS = [1, 4, 8, 24, 72, 168];
const MAX_GPUS = 16;
const whole = (text: string, min: number, max: number) =>
  Math.min(max, Math.max(min, Math.round(Number(text)) || min));

const modes = () =>
  MODES.map((mode): [string, string] => [mode, coded("compute_mode.help", mode, mode)]);

interface FieldsProps {
  wanted: Wanted;
  set: (fresh: Partial<Wanted>) => void;
}

function Choice<V extends string>({
  id,
  label,
  value,
  options,
  onChange,
}: {
  id: string;
  label: string;
  value: V;
  options: [value: string, text: string][];
  onChange: (value: V) => void;
}) {
  return (
    <FormGroup label={label} fieldId={id}>
      <FormSelect id={id} value={value} onChange={(_, v) => onChange(v as V)}>
        {options.map(([v, text]) => (
          <FormSelectOption key={v} value={v} label={text} />
        ))}
      </FormSelect>
    </FormGroup>
  );
}

const same = (names: string[]): [string, string][] => names.map((n) => [n, n]);

function Share({ wanted: w, set }: FieldsProps) {
  const gpus = useRows("gpu").filter((g) => g.pool === w.pool);
  const largest = Math.max(0, ...gpus.map((g) => g.memory_bytes));
  const label = t("allocate.share", { percent: w.percent });
  return (
    <FormGroup
      label={
        largest
          ? `${label}, ${t("allocate.upTo", { size: gib((largest * w.percent) / 100) })}`
          : label
      }
      fieldId="percent"
    >
      <Slider
        id="percent"
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
    </FormGroup>
  );
}

function PlaceFields({ wanted: w, set }: FieldsProps) {
  const pools = useRows("pool").map((p) => p.name);
  const projects = (useQuery(listQuery("projects")).data ?? [{ name: w.project }]).map(
    (p) => p.name,
  );
  return (
    <>
      <GridItem>
        <Choice
          id="pool"
          label={t("field.pool")}
          value={w.pool}
          options={same(pools)}
          onChange={(pool) => set({ pool })}
        />
      </GridItem>
      <GridItem>
        <Choice
          id="project"
          label={t("field.project")}
          value={w.project}
          options={same(projects)}
          onChange={(project) => set({ project })}
        />
      </GridItem>
    </>
  );
}

function CountField({ wanted: w, set }: FieldsProps) {
  return (
    <FormGroup label={t("allocate.gpus")} fieldId="count">
      <NumberInput
        id="count"
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
    </FormGroup>
  );
}

function NameField({ wanted: w, set }: FieldsProps) {
  return (
    <FormGroup label={t("field.name")} fieldId="name">
      <TextInput
        id="name"
        value={w.name}
        onChange={(_, name) => set({ name })}
        placeholder={t("allocate.nameExample")}
        autoFocus
      />
    </FormGroup>
  );
}

export function BasicFields({ wanted: w, set }: FieldsProps) {
  return (
    <>
      <NameField wanted={w} set={set} />
      <Grid hasGutter md={6}>
        <PlaceFields wanted={w} set={set} />
        <GridItem>
          <CountField wanted={w} set={set} />
        </GridItem>
        <GridItem>
          <Choice
            id="hours"
            label={t("allocate.for")}
            value={String(w.hours)}
            options={HOURS.map((h) => [String(h), counted("count.hour", h)])}
            onChange={(hours) => set({ hours: Number(hours) })}
          />
        </GridItem>
      </Grid>
      <Choice
        id="mode"
        label={t("allocate.mode")}
        value={w.mode}
        options={modes()}
        onChange={(mode) => set({ mode })}
      />
      {!isWhole(w) && <Share wanted={w} set={set} />}
    </>
  );
}

function MemoryField({ wanted: w, set }: FieldsProps) {
  return (
    <FormGroup label={t("allocate.memory")} fieldId="memory">
      <TextInput
        id="memory"
        type="number"
        min={0}
        step="any"
        value={w.memoryGib}
        onChange={(_, memoryGib) => set({ memoryGib })}
      />
    </FormGroup>
  );
}

function LabelsField({ wanted: w, set }: FieldsProps) {
  return (
    <FormGroup label={t("allocate.labels")} fieldId="labels">
      <TextArea
        id="labels"
        rows={2}
        value={w.labels}
        placeholder="site=berlin"
        onChange={(_, labels) => set({ labels })}
      />
    </FormGroup>
  );
}

function OrderFields({ wanted: w, set }: FieldsProps) {
  return (
    <>
      <FormGroup label={t("allocate.priority")} fieldId="priority">
        <TextInput
          id="priority"
          type="number"
          value={w.priority}
          onChange={(_, v) => set({ priority: whole(v, 0, 200) })}
        />
      </FormGroup>
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
    </>
  );
}

export function MoreFields({ wanted: w, set }: FieldsProps) {
  return (
    <Grid hasGutter md={6}>
      {!isWhole(w) && (
        <GridItem>
          <MemoryField wanted={w} set={set} />
        </GridItem>
      )}
      <GridItem>
        <FormGroup label={t("allocate.model")} fieldId="model">
          <TextInput id="model" value={w.model} onChange={(_, model) => set({ model })} />
        </FormGroup>
      </GridItem>
      <GridItem>
        <LabelsField wanted={w} set={set} />
      </GridItem>
      <GridItem>
        <OrderFields wanted={w} set={set} />
      </GridItem>
    </Grid>
  );
}
