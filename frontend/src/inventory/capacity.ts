// Allocated capacity computed from partitions, and node health.
import type { Gpu, Node, Partition } from "../api/client";
import { partitionsByGpu } from "../api/indexes";
import { coded, t } from "../text/text";

export interface Capacity {
  percent: number;
  memory_bytes: number;
}

export const partitionsOf = (gpu: Gpu, partitions: Partition[]) =>
  [...(partitionsByGpu(partitions).get(gpu.id) ?? [])].sort((a, b) => (a.id < b.id ? -1 : 1));

/** Memory that a partition holds: one that shrinks holds more than its size. */
export const heldBytes = (p: Partition) => p.memory_bytes + (p.over_bytes ?? 0);

export const allocated = (partitions: Partition[]): Capacity => ({
  percent: partitions.reduce((sum, p) => sum + p.compute_percent, 0),
  memory_bytes: partitions.reduce((sum, p) => sum + heldBytes(p), 0),
});

export const byIndex = (a: Gpu, b: Gpu) => a.node.localeCompare(b.node) || a.index - b.index;

export type NodeHealth = "ready" | "unreachable" | "cordoned" | "other";
export const healthOf = (node: Node): NodeHealth => {
  if (!node.reachable) return "unreachable";
  if (node.locked_at) return "unreachable";
  return node.state === "ready" || node.state === "cordoned" ? node.state : "other";
};

/** Return the state in words: an unreachable node is not called ready. */
export function healthText(node: Node): string {
  const state = node.state ?? "enrolling";
  const text = node.locked_at ? t("health.locked") : coded("health", state, state);
  if (node.reachable) return text;
  return state === "ready" ? t("health.unreachable") : `${text}, ${t("health.unreachable")}`;
}

export const TONES = 8;
const hash = (text: string) =>
  [...text].reduce((sum, c) => (sum * 31 + c.charCodeAt(0)) >>> 0, 7) % TONES;

/** Colours of the partitions of one GPU: by allocation, and distinct while there are enough. */
export function tonesOf(partitions: Partition[]): Map<string, number> {
  const tones = new Map<string, number>();
  const taken = new Set<number>();
  for (const p of partitions) {
    let tone = hash(p.allocation_id);
    for (let tries = 0; taken.has(tone) && tries < TONES; tries++) tone = (tone + 1) % TONES;
    taken.add(tone);
    tones.set(p.id, tone);
  }
  return tones;
}
