// Names of allocations and their requests in words.
import type { Allocation } from "../api/client";
import { gib } from "../format";
import { counted, t } from "../text/text";

export const allocationName = (a: { id: string; name?: string }) => a.name || a.id.slice(-8);

/** Return the request in words, such as "1 GPU × 30 %, pool default". */
export function requestText(a: Allocation): string {
  const share = a.memory_bytes ? `${a.percent} %, ${gib(a.memory_bytes)}` : `${a.percent} %`;
  return t("allocation.request", {
    gpus: counted("count.gpu", a.gpu_count ?? 1),
    share,
    pool: a.pool ?? t("common.none"),
  });
}

const ENDED = new Set(["releasing", "released", "failed"]);
export const hasEnded = (a: { state?: string }) => ENDED.has(a.state ?? "");
