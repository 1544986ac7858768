// Bar of one GPU's memory. Its segments are the partitions.
import { Tooltip } from "@patternfly/react-core";
import { useRef } from "react";
import type { Allocation, Gpu, Partition, Session } from "../api/client";
import { useRows } from "../api/queries";
import { gib } from "../format";
import { allocated, partitionsOf } from "./capacity";

const TONES = 6;
/** Narrower segments show no name; tooltip and label contain it. */
const NARROW_PERCENT = 9;
/** Return the colour index of a partition, equal on all pages. */
const toneOf = (p: Partition) =>
  [...p.allocation_id].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) >>> 0, 7) % TONES;

function used(p: Partition, gpu: Gpu, sessions: Session[]): number {
  return sessions
    .filter((s) => s.allocation_id === p.allocation_id && s.node === gpu.node)
    .reduce((sum, s) => sum + (s.memory_bytes ?? 0), 0);
}

interface SegmentProps {
  partition: Partition;
  gpu: Gpu;
  allocation: Allocation | undefined;
  sessions: Session[];
}

function Segment({ partition: p, gpu, allocation, sessions }: SegmentProps) {
  const share = (100 * p.memory_bytes) / gpu.memory_bytes;
  const filled = Math.min(100, (100 * used(p, gpu, sessions)) / p.memory_bytes);
  const name = allocation ? allocation.name || allocation.id.slice(-8) : "another project";
  const owner = allocation ? `, ${allocation.owner}` : "";
  const text = `${name}${owner}: ${p.compute_percent} %, ${gib(p.memory_bytes)}, ${Math.round(filled)} % of it used, ${p.state}`;
  const item = useRef<HTMLLIElement>(null);
  return (
    <li
      ref={item}
      // biome-ignore lint/a11y/noNoninteractiveTabindex: the tooltip must be reachable by keyboard
      tabIndex={0}
      aria-label={text}
      className={`bb-segment bb-segment--tone-${toneOf(p)} bb-segment--${p.state}`}
      style={{ flexBasis: `${share}%` }}
      data-partition={p.id}
    >
      <div className="bb-segment__used" style={{ width: `${filled}%` }} />
      <span className="bb-segment__text">
        {share >= NARROW_PERCENT && name} <b>{p.compute_percent} %</b>
      </span>
      <Tooltip content={text} triggerRef={item} aria="none" />
    </li>
  );
}

export function PartitionBar({ gpu, isTall = false }: { gpu: Gpu; isTall?: boolean }) {
  const ownPartitions = partitionsOf(gpu, useRows("partition"));
  const allocations = useRows("allocation");
  const sessions = useRows("session");
  const total = allocated(ownPartitions);
  const free = gpu.memory_bytes - total.memory_bytes;
  return (
    <div className="bb-gpubar">
      <ul
        className={`bb-bar ${isTall ? "bb-bar--tall" : ""}`}
        aria-label={`Partitions of GPU ${gpu.index} of ${gpu.node}`}
      >
        {ownPartitions.map((p) => (
          <Segment
            key={p.id}
            partition={p}
            gpu={gpu}
            allocation={allocations.find((a) => a.id === p.allocation_id)}
            sessions={sessions}
          />
        ))}
        {total.percent < 100 && (
          <li
            className="bb-segment bb-segment--free"
            aria-label={`${100 - total.percent} % free, ${gib(free)}`}
          >
            <span className="bb-segment__text">
              {100 - total.percent >= NARROW_PERCENT && `${100 - total.percent} % free`}
            </span>
          </li>
        )}
      </ul>
    </div>
  );
}
