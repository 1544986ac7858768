// Names of allocations and their requests in words.
import type { Allocation } from "../api/client";
import { counted, t } from "../text/text";
import { gib, number } from "./format";
import { modeText } from "./computeShare";

export const allocationName = (a: { id: string; name?: string }) => a.name || a.id.slice(-8);

/** Return the requested size in words. */
export const sizeText = (a: Allocation): string =>
  a.memory_bytes ? `${a.percent} %, ${gib(a.memory_bytes)}` : `${a.percent} %`;

/** Return the request in words, such as "1 GPU × 30 %, pool default", with a mode that waits. */
export function requestText(a: Allocation): string {
  const size = sizeText(a);
  const waits = a.compute_mode !== a.granted_compute_mode;
  const share = waits ? `${size}, ${modeText(a.compute_mode)}` : size;
  return t("allocation.request", {
    gpus: counted("count.gpu", a.gpu_count ?? 1),
    share,
    pool: a.pool ?? t("common.none"),
  });
}

export const maxSessionsText = (a: Allocation): string =>
  a.max_sessions == null ? "–" : number(a.max_sessions);

const ENDED = new Set(["releasing", "released", "failed"]);
export const hasEnded = (a: { state?: string }) => ENDED.has(a.state ?? "");
