// The size that an allocation has, as a request would state it. While a resize waits, `percent` and
// `memory_bytes` of the allocation are those that it waits for.
import type { Allocation, Gpu, Partition, Schema } from "../api/client";
import type { Mode } from "./allocationRequest";

const STEP = 2 ** 21;
const WHOLE_PERCENT = 100;

type Size = Required<Schema<"PatchedResizeRequest">>;
type Part = Pick<Partition, "gpu_id" | "compute_percent" | "memory_bytes">;

/** Whether the memory of each partition is in proportion to its compute. */
const isShare = (parts: readonly Part[], gpus: readonly Gpu[]) =>
  parts.every((p) => {
    const memory = gpus.find((g) => g.id === p.gpu_id)?.memory_bytes ?? 0;
    const steps = Math.floor((memory * p.compute_percent) / WHOLE_PERCENT / STEP);
    return p.memory_bytes === steps * STEP;
  });

/** Return the size and mode that the nodes have been told. They withdraw a resize that waits. */
export function grantedSize(a: Allocation, gpus: readonly Gpu[]): Size {
  const [first] = a.partitions ?? [];
  if (a.resize?.state !== "queued" || !first) {
    const { percent = 0, memory_bytes = 0, compute_mode = "shared" } = a;
    return { percent, memory_bytes, compute_mode: compute_mode as Mode };
  }
  const { compute_percent: percent, memory_bytes } = first;
  const compute_mode = (a.granted_compute_mode ?? "shared") as Mode;
  return { percent, memory_bytes: isShare(a.partitions, gpus) ? 0 : memory_bytes, compute_mode };
}
