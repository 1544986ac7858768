// The movable edge of a partition in the bar of its GPU: by pointer, or by keyboard as a slider.
// Enter or the end of a drag asks for confirmation, with the API call; Escape takes it back.
import { Tooltip } from "@patternfly/react-core";
import { type KeyboardEvent, type PointerEvent, type RefObject, useRef } from "react";
import { useActions } from "../actions/queries";
import { openResize } from "../actions/resize";
import type { Allocation, Gpu, Partition } from "../api/client";
import { allocationName } from "../model/allocationNames";
import { gib } from "../model/format";
import { grantedSize } from "../model/grantedSize";
import { counted, t } from "../text/text";
import type { FormValues } from "../ui/fields";
import { type Capacity, heldBytes } from "./capacity";

const STEP = 1;
const BIG_STEP = 10;
const [MIB, GIB] = [2 ** 20, 2 ** 30];

/** Size of a partition in percent of its GPU's memory. */
export const percentOf = (p: Partition, gpu: Gpu) =>
  Math.max(1, Math.round((100 * p.memory_bytes) / gpu.memory_bytes));

/** Whether a change of the memory leaves the compute as it is. */
export function keepsCompute(allocation: Allocation): boolean {
  const { percent, memory_bytes } = grantedSize(allocation);
  return percent > 0 && memory_bytes > 0;
}

/** The largest size in percent of the memory: what the partition holds and what is free. */
export function mostFor(allocation: Allocation, p: Partition, gpu: Gpu, free: Capacity): number {
  const memory = Math.floor((100 * (heldBytes(p) + free.memory_bytes)) / gpu.memory_bytes);
  const most = keepsCompute(allocation)
    ? memory
    : Math.min(memory, p.compute_percent + free.percent);
  return Math.max(most, percentOf(p, gpu));
}

/** The value in the form of a resize that gives the partitions of an allocation this share. */
export function sizeFor(allocation: Allocation, gpu: Gpu, percent: number): FormValues {
  if (!grantedSize(allocation).memory_bytes) return { percent: String(percent) };
  const bytes = Math.floor((gpu.memory_bytes * percent) / 100 / MIB) * MIB;
  return { memory_bytes: String(bytes / GIB) };
}

/** Return the size after a key, or null if the key does not change it. */
export function sizeAfter(key: string, now: number, most: number): number | null {
  const sizes: Record<string, number> = {
    ArrowRight: now + STEP,
    ArrowUp: now + STEP,
    ArrowLeft: now - STEP,
    ArrowDown: now - STEP,
    PageUp: now + BIG_STEP,
    PageDown: now - BIG_STEP,
    Home: 1,
    End: most,
  };
  const next = sizes[key];
  return next === undefined ? null : Math.min(most, Math.max(1, next));
}

interface Props {
  allocation: Allocation;
  partition: Partition;
  gpu: Gpu;
  /** The largest size in percent: its own and what is free. */
  most: number;
  preview: number | null;
  setPreview: (percent: number | null) => void;
}

/** What the dialog asks: in what the request changes, compute and memory or memory alone. */
function question({ allocation: a, partition, gpu }: Props, percent: number): string {
  const count = a.gpu_count ?? 1;
  const before = gib(partition.memory_bytes);
  const after = gib((gpu.memory_bytes * percent) / 100);
  const size = grantedSize(a);
  if (!size.memory_bytes) {
    const from = percentOf(partition, gpu);
    return counted("bar.resizeText", count, { from, to: percent, before, after });
  }
  const compute = size.percent
    ? t("bar.computeStays", { percent: size.percent })
    : t("bar.computeFollows");
  return counted("bar.resizeMemoryText", count, { before, after, compute });
}

function confirmSize(props: Props, percent: number) {
  const { allocation, gpu, setPreview } = props;
  openResize(
    { row: allocation, version: `"${allocation.version}"` },
    {
      wanted: sizeFor(allocation, gpu, percent),
      question: question(props, percent),
      fields: [],
      closed: () => setPreview(null),
    },
  );
}

interface MovementProps {
  handle: RefObject<HTMLDivElement | null>;
  now: number;
  most: number;
  setPreview: (percent: number | null) => void;
  ask: (percent: number) => void;
}

/** Pointer handlers of the edge: a drag over the width of the bar is 100 %. */
function useDrag({ handle, now, most, setPreview, ask }: MovementProps) {
  const drag = useRef<{ x: number; percent: number; width: number } | null>(null);
  const sizeAt = (e: PointerEvent) => {
    const from = drag.current;
    if (!from) return null;
    const wanted = Math.round(from.percent + (100 * (e.clientX - from.x)) / from.width);
    return Math.min(most, Math.max(1, wanted));
  };
  return {
    onPointerDown: (e: PointerEvent<HTMLDivElement>) => {
      const width = handle.current?.closest("ul")?.clientWidth ?? 0;
      if (e.button !== 0 || width === 0) return;
      e.currentTarget.setPointerCapture(e.pointerId);
      drag.current = { x: e.clientX, percent: now, width };
    },
    onPointerMove: (e: PointerEvent) => {
      const percent = sizeAt(e);
      if (percent !== null) setPreview(percent);
    },
    onPointerUp: (e: PointerEvent) => {
      const percent = sizeAt(e);
      drag.current = null;
      if (percent !== null) ask(percent);
    },
    onPointerCancel: () => {
      drag.current = null;
      setPreview(null);
    },
  };
}

/** The answer of the server whether the allocation may be resized; undefined while it is asked. */
function useAnswer({ id, name }: Allocation) {
  const answers = useActions([{ kind: "allocations" as const, id, name: name ?? "" }]);
  return answers?.get(`allocations/${id}`)?.find((a) => a.name === "resize");
}

function textOf({ allocation, gpu }: Props, percent: number): string {
  const isMemory = grantedSize(allocation).memory_bytes > 0;
  const size = gib((gpu.memory_bytes * percent) / 100);
  return t(isMemory ? "bar.resizeMemory" : "bar.resizeValue", { percent, size });
}

interface EdgeProps extends Props {
  isMovable: boolean;
  help: string;
}

function Edge({ isMovable, help, ...props }: EdgeProps) {
  const { allocation, partition, gpu, most, preview, setPreview } = props;
  const handle = useRef<HTMLDivElement>(null);
  const actual = percentOf(partition, gpu);
  const now = preview ?? actual;
  const ask = (percent: number) => {
    if (percent === actual) setPreview(null);
    else confirmSize(props, percent);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const next = sizeAfter(e.key, now, most);
    if (next !== null) setPreview(next);
    else if (e.key === "Enter" || e.key === " ") ask(now);
    else if (e.key === "Escape" && preview !== null) setPreview(null);
    else return;
    e.preventDefault();
  };
  const handlers = { ...useDrag({ handle, now, most, setPreview, ask }), onKeyDown };
  return (
    <>
      <div
        ref={handle}
        role="slider"
        tabIndex={0}
        className="bb-segment__edge"
        aria-label={t("bar.resize", { name: allocationName(allocation) })}
        aria-valuemin={1}
        aria-valuemax={most}
        aria-valuenow={now}
        aria-valuetext={textOf(props, now)}
        aria-disabled={!isMovable}
        {...(isMovable ? handlers : {})}
      />
      <Tooltip content={help} triggerRef={handle} />
    </>
  );
}

export function ResizeHandle(props: Props) {
  const answer = useAnswer(props.allocation);
  if (!answer) return null;
  const isMovable = answer.allowed && props.allocation.compute_mode !== "exclusive";
  const refusal = answer.reason ?? t("bar.resizeWhole");
  return <Edge {...props} isMovable={isMovable} help={isMovable ? t("bar.resizeHelp") : refusal} />;
}
