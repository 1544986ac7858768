// The size that an allocation has, as a request would state it. While a resize waits, `percent` and
// `memory_bytes` of the allocation are those that it waits for.
import type { Allocation, Schema } from "../api/client";
import type { Mode } from "./allocationRequest";

/** Return the size and mode that the nodes have been told. They withdraw a resize that waits. */
export const grantedSize = ({
  resize,
  percent = 0,
  memory_bytes = 0,
  compute_mode = "shared",
}: Allocation): Schema<"GrantedSize"> =>
  resize?.granted_size ?? { percent, memory_bytes, compute_mode: compute_mode as Mode };
