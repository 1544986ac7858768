// Bar of one GPU's memory. A segment opens its allocation; free space allocates there. In the tall
// bar of the GPU's page the edge of a segment resizes its allocation.
import { Tooltip } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";
import { type ReactNode, type RefObject, useRef, useState } from "react";
import { openContextMenu } from "../actions/ActionMenu";
import { openAllocate } from "../allocations/AllocateDialog";
import type { Allocation, Gpu, Partition, Session } from "../api/client";
import { allocationsById, sessionsByAllocation } from "../api/indexes";
import { useRows } from "../api/queries";
import { useAccount } from "../model/account";
import { allocationName } from "../model/allocationNames";
import { gib } from "../model/format";
import { coded, t } from "../text/text";
import { allocated, partitionsOf, tonesOf } from "./capacity";
import { isCapacity } from "./gpuState";
import { ResizeHandle, percentOf } from "./ResizeHandle";

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
  /** Free percent of the GPU, if the edge of the segment can be moved. */
  room: number | undefined;
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

function Segment({ partition: p, gpu, allocation, sessions, tone, room }: SegmentProps) {
  const [preview, setPreview] = useState<number | null>(null);
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
          {share >= TINY_PERCENT && <b>{preview ?? p.compute_percent} %</b>}
        </span>
      </SegmentLink>
      {allocation?.state === "active" && room !== undefined && (
        <ResizeHandle
          {...{ allocation, partition: p, gpu, preview, setPreview }}
          most={percentOf(p, gpu) + room}
        />
      )}
    </li>
  );
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

export function PartitionBar({ gpu, isTall = false }: { gpu: Gpu; isTall?: boolean }) {
  const own = partitionsOf(gpu, useRows("partition"));
  const allocations = allocationsById(useRows("allocation"));
  const sessions = useRows("session");
  const total = allocated(own);
  const tones = tonesOf(own);
  const free = 100 - total.percent;
  const freeMemory = Math.floor(100 - (100 * total.memory_bytes) / gpu.memory_bytes);
  return (
    <div className="bb-gpubar">
      <ul
        className={`bb-bar ${isTall ? "bb-bar--tall" : ""}`}
        aria-label={t("bar.label", { gpu: gpu.index, node: gpu.node })}
      >
        {own.map((p) => (
          <Segment
            key={p.id}
            partition={p}
            gpu={gpu}
            allocation={allocations.get(p.allocation_id)}
            sessions={sessions}
            tone={tones.get(p.id) ?? 0}
            room={isTall ? Math.min(free, freeMemory) : undefined}
          />
        ))}
        {free > 0 && (
          <Free gpu={gpu} percent={free} bytes={gpu.memory_bytes - total.memory_bytes} />
        )}
      </ul>
    </div>
  );
}
