// A request for GPUs from the values of the dialog, and the same as a command line and for curl.
import type { AllocationRequest, Schema } from "../api/client";
import { labelsOf } from "./labels";
import { quoted } from "./shellLine";

const GIB = 2 ** 30;
const HOUR = 3600;

export type Mode = Schema<"ComputeModeEnum">;
export const MODES: readonly Mode[] = ["shared", "capped", "guaranteed", "exclusive"];

export interface Wanted {
  name: string;
  pool: string;
  project: string;
  count: number;
  mode: Mode;
  /** Of each GPU, as its memory; without a meaning for whole GPUs. */
  percent: number;
  memoryGib: string;
  model: string;
  labels: string;
  hours: number;
  priority: number;
  sameNode: boolean;
  preemptible: boolean;
}
export const INITIAL: Wanted = {
  name: "",
  pool: "default",
  project: "default",
  count: 1,
  mode: "shared",
  percent: 25,
  memoryGib: "",
  model: "",
  labels: "",
  hours: 8,
  priority: 50,
  sameNode: false,
  preemptible: true,
};

export const isWhole = (w: Wanted) => w.mode === "exclusive";
const memoryOf = (w: Wanted) => (isWhole(w) ? 0 : Number(w.memoryGib));

/** Return the body of the request; what has its default is left out. */
export function requestBody(w: Wanted): AllocationRequest {
  const selector = labelsOf(w.labels);
  return {
    name: w.name,
    pool: w.pool,
    project: w.project,
    gpu_count: w.count,
    ...(isWhole(w) ? {} : { percent: w.percent }),
    ...(w.mode === INITIAL.mode ? {} : { compute_mode: w.mode }),
    hold: "lifetime",
    lifetime_seconds: w.hours * HOUR,
    ...(memoryOf(w) ? { memory_bytes: Math.round(memoryOf(w) * GIB) } : {}),
    ...(w.model ? { model: w.model } : {}),
    ...(Object.keys(selector).length > 0 ? { selector } : {}),
    ...(w.priority === INITIAL.priority ? {} : { priority: w.priority }),
    ...(w.sameNode ? { same_node: true } : {}),
    ...(w.preemptible ? {} : { preemptible: false }),
  } as AllocationRequest;
}

export function commandLine(w: Wanted): string {
  const words = ["busbar", "allocation", "create"];
  if (w.name) words.push("--name", w.name);
  words.push("-n", String(w.count));
  if (isWhole(w)) words.push("--exclusive");
  else words.push("-p", String(w.percent));
  if (!isWhole(w) && w.mode !== INITIAL.mode) words.push("--mode", w.mode);
  if (memoryOf(w)) words.push("--memory", `${w.memoryGib}GiB`);
  if (w.pool !== INITIAL.pool) words.push("--pool", w.pool);
  if (w.project !== INITIAL.project) words.push("--project", w.project);
  if (w.model) words.push("--model", w.model);
  for (const [key, value] of Object.entries(labelsOf(w.labels)))
    words.push("--label", `${key}=${value}`);
  if (w.priority !== INITIAL.priority) words.push("--priority", String(w.priority));
  if (w.sameNode) words.push("--same-node");
  if (!w.preemptible) words.push("--no-preemptible");
  words.push("--lifetime", `${w.hours}h`);
  return words.map(quoted).join(" ");
}

/** Return the API call of a resize. */
export const resizeCurl = (
  id: string,
  size: Schema<"PatchedResizeRequest">,
  origin: string,
): string =>
  `curl --cacert ca.pem -X PATCH -H "Authorization: Bearer $BUSBAR_TOKEN" --json ${quoted(JSON.stringify(size))} ${origin}/api/v1/allocations/${id}`;

export const curlLine = (w: Wanted, origin: string): string =>
  `curl --cacert ca.pem -H "Authorization: Bearer $BUSBAR_TOKEN" --json ${quoted(JSON.stringify(requestBody(w)))} ${origin}/api/v1/allocations`;
