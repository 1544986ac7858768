// Bar of one GPU's memory. A segment opens its allocation; free space allocates there. In the tall
// bar of the GPU's page the edge of a segment resizes its allocation.
import { Tooltip } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";
import { Fragment, type ReactNode, type RefObject, useRef, useState } from "react";
import { openContextMenu } from "../actions/ActionMenu";
import { openAllocate } from "../allocations/AllocateDialog";
import type { Allocation, Gpu, Partition, Session } from "../api/client";
import { allocationsById, sessionsByAllocation } from "../api/indexes";
import { useRows } from "../api/queries";
import { useAccount } from "../model/account";
import { allocationName } from "../model/allocationNames";
import { gib, size } from "../model/format";
import { coded, t } from "../text/text";
import { type Capacity, allocated, partitionsOf, tonesOf } from "./capacity";
import { isCapacity } from "./gpuState";
import { ResizeHandle, keepsCompute, mostFor } from "./ResizeHandle";

/** Narrower segments show no name; tooltip and label contain it. */
const NARROW_PERCENT = 12;
const TINY_PERCENT = 6;

function usedBytes(p: Partition, gpu: Gpu, sessions: Session[]): number {
  const own = sessionsByAllocation(sessions).get(p.allocation_id) ?? [];
  return own.filter((s) => s.node === gpu.node).reduce((sum, s) => sum + (s.memory_bytes ?? 0), 0);
}

const nameOf = (allocation: Allocation | undefined) =>
  allocation ? allocationName(allocation) : t("common.anotherProject");

interface SegmentProps {
  partition: Partition;
  gpu: Gpu;
  allocation: Allocation | undefined;
  sessions: Session[];
  tone: number;
  /** What is free on the GPU, if the edge of the segment can be moved. */
  free: Capacity | undefined;
  /** Size in percent of the memory while the edge is moved. */
  preview: number | null;
  setPreview: (percent: number | null) => void;
}

interface SegmentLinkProps {
  partition: Partition;
  allocation: Allocation | undefined;
  name: string;
  text: string;
  children: ReactNode;
}

/** The segment itself with its tooltip: a link if the user may view the allocation. */
function SegmentLink({ partition, allocation, name, text, children }: SegmentLinkProps) {
  const item = useRef<HTMLElement>(null);
  const common = {
    "aria-label": text,
    className: "bb-segment__link",
    "data-partition": partition.id,
  };
  return (
    <>
      {allocation ? (
        <Link
          {...common}
          ref={item as RefObject<HTMLAnchorElement | null>}
          to={`/allocations/${allocation.id}`}
          onContextMenu={(e) =>
            openContextMenu(e, { kind: "allocations", id: allocation.id, name })
          }
        >
          {children}
        </Link>
      ) : (
        // biome-ignore lint/a11y/noNoninteractiveTabindex: the tooltip must be reachable by keyboard
        <span {...common} ref={item} role="img" tabIndex={0}>
          {children}
        </span>
      )}
      <Tooltip content={text} triggerRef={item} aria="none" />
    </>
  );
}

function segmentText(p: Partition, allocation: Allocation | undefined, filled: number): string {
  return t("bar.segment", {
    name: nameOf(allocation),
    owner: allocation ? `, ${allocation.owner}` : "",
    percent: p.compute_percent,
    size: gib(p.memory_bytes),
    used: Math.round(filled),
    state:
      p.state === "suspended" ? t("bar.suspended") : coded("allocationState", p.state, p.state),
  });
}

/** The share in a segment: that of the compute, with the memory if it is an amount of its own. */
function shareText(p: Partition, gpu: Gpu, a: Allocation | undefined, preview: number | null) {
  if (!a || !keepsCompute(a)) return `${preview ?? p.compute_percent} %`;
  const bytes = preview === null ? p.memory_bytes : (gpu.memory_bytes * preview) / 100;
  return t("bar.resizeValue", { percent: p.compute_percent, size: gib(bytes) });
}

function Segment(props: SegmentProps) {
  const { partition: p, gpu, allocation, sessions, tone, free, preview, setPreview } = props;
  const share = preview ?? (100 * p.memory_bytes) / gpu.memory_bytes;
  const filled = Math.min(100, (100 * usedBytes(p, gpu, sessions)) / p.memory_bytes);
  const name = nameOf(allocation);
  const text = segmentText(p, allocation, filled);
  return (
    <li
      className={`bb-segment bb-segment--tone-${tone} bb-segment--${p.state} ${preview === null ? "" : "bb-segment--moving"}`}
      style={{ flexBasis: `${share}%` }}
    >
      <SegmentLink {...{ partition: p, allocation, name, text }}>
        <span className="bb-segment__used" style={{ width: `${filled}%` }} />
        <span className="bb-segment__text" aria-hidden="true">
          {share >= NARROW_PERCENT && <bdi>{name}</bdi>}{" "}
          {share >= TINY_PERCENT && <b>{shareText(p, gpu, allocation, preview)}</b>}
        </span>
      </SegmentLink>
      {allocation?.state === "active" && free && (
        <ResizeHandle
          {...{ allocation, partition: p, gpu, preview, setPreview }}
          most={mostFor(allocation, p, gpu, free)}
        />
      )}
    </li>
  );
}

/** Memory beyond the size of a partition that shrinks. */
interface ReturningProps {
  gpu: Gpu;
  partition: Partition;
  allocation: Allocation | undefined;
}

function Returning({ gpu, partition, allocation }: ReturningProps) {
  const item = useRef<HTMLLIElement>(null);
  const bytes = partition.over_bytes;
  if (!bytes) return null;
  const text = t("bar.returning", { name: nameOf(allocation), size: size(bytes) });
  return (
    <li
      ref={item}
      className="bb-segment bb-segment--returning"
      aria-label={text}
      style={{ flexBasis: `${(100 * bytes) / gpu.memory_bytes}%` }}
    >
      <Tooltip content={text} triggerRef={item} aria="none" />
    </li>
  );
}

interface Moving {
  id: string;
  percent: number;
}

/** What is free when a partition has the size to which its edge was moved. */
function freeAfter(free: Capacity, gpu: Gpu, p: Partition, a: Allocation, percent: number) {
  const compute = keepsCompute(a) ? 0 : percent - p.compute_percent;
  const memory = (gpu.memory_bytes * percent) / 100 - p.memory_bytes;
  return { percent: free.percent - compute, memory_bytes: free.memory_bytes - memory };
}

function Free({ gpu, percent, bytes }: { gpu: Gpu; percent: number; bytes: number }) {
  const { me } = useAccount();
  const text = t("bar.free", { percent, size: gib(bytes) });
  const offers = me.privileges.includes("allocations.create") && isCapacity(gpu) && gpu.pool;
  const label = percent >= NARROW_PERCENT && t("bar.freeShort", { percent });
  return (
    <li className="bb-segment bb-segment--free" {...(offers ? {} : { "aria-label": text })}>
      {offers ? (
        <button
          type="button"
          className="bb-segment__link bb-segment__text"
          aria-label={t("bar.allocateHere", { free: text })}
          onClick={() => openAllocate({ gpu: gpu.id, pool: gpu.pool ?? "default", percent })}
        >
          {label}
        </button>
      ) : (
        <span className="bb-segment__text">{label}</span>
      )}
    </li>
  );
}

/** What no partition of the GPU has, as it will be with the edge that is dragged. */
function useFree(gpu: Gpu, own: Partition[], moving: Moving | null) {
  const allocations = allocationsById(useRows("allocation"));
  const total = allocated(own);
  const free = {
    percent: 100 - total.percent,
    memory_bytes: gpu.memory_bytes - total.memory_bytes,
  };
  const moved = own.find((p) => p.id === moving?.id);
  const owner = moved && allocations.get(moved.allocation_id);
  const left = moving && moved && owner ? freeAfter(free, gpu, moved, owner, moving.percent) : free;
  return { free, left };
}

export function PartitionBar({ gpu, isTall = false }: { gpu: Gpu; isTall?: boolean }) {
  const own = partitionsOf(gpu, useRows("partition"));
  const allocations = allocationsById(useRows("allocation"));
  const sessions = useRows("session");
  const [moving, setMoving] = useState<Moving | null>(null);
  const tones = tonesOf(own);
  const { free, left } = useFree(gpu, own, moving);
  return (
    <div className="bb-gpubar">
      <ul
        className={`bb-bar ${isTall ? "bb-bar--tall" : ""}`}
        aria-label={t("bar.label", { gpu: gpu.index, node: gpu.node })}
      >
        {own.map((p) => (
          <Fragment key={p.id}>
            <Segment
              partition={p}
              gpu={gpu}
              allocation={allocations.get(p.allocation_id)}
              sessions={sessions}
              tone={tones.get(p.id) ?? 0}
              free={isTall ? free : undefined}
              preview={moving?.id === p.id ? moving.percent : null}
              setPreview={(percent) => setMoving(percent === null ? null : { id: p.id, percent })}
            />
            <Returning gpu={gpu} partition={p} allocation={allocations.get(p.allocation_id)} />
          </Fragment>
        ))}
        {left.percent > 0 && (
          <Free gpu={gpu} percent={left.percent} bytes={Math.max(0, left.memory_bytes)} />
        )}
      </ul>
    </div>
  );
}
