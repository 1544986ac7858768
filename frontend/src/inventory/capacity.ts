// Allocated capacity computed from partitions, and node health.
import type { Gpu, Node, Partition } from "../api/client";

export interface Capacity {
  percent: number;
  memory_bytes: number;
}

export const partitionsOf = (gpu: Gpu, partitions: Partition[]) =>
  partitions.filter((p) => p.gpu_id === gpu.id).sort((a, b) => (a.id < b.id ? -1 : 1));

export const allocated = (partitions: Partition[]): Capacity => ({
  percent: partitions.reduce((sum, p) => sum + p.compute_percent, 0),
  memory_bytes: partitions.reduce((sum, p) => sum + p.memory_bytes, 0),
});

export const byIndex = (a: Gpu, b: Gpu) => a.node.localeCompare(b.node) || a.index - b.index;

export type NodeHealth = "ready" | "unreachable" | "cordoned" | "other";
export const healthOf = (node: Node): NodeHealth => {
  if (!node.reachable) return "unreachable";
  return node.state === "ready" || node.state === "cordoned" ? node.state : "other";
};
export const healthText = (node: Node): string =>
  node.reachable ? node.state : `${node.state}, unreachable`;
