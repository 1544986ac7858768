// Indexes of cached lists. Each is built once per version of its list, however many ask.
import type { Allocation, Gpu, Partition, Session } from "./client";

type KeyOf<R> = (row: R) => string;

/** Return a function that groups a list by a key and remembers the result for that list. */
export function grouping<R extends object>(keyOf: KeyOf<R>): (rows: R[]) => Map<string, R[]> {
  const known = new WeakMap<R[], Map<string, R[]>>();
  return (rows) => {
    const found = known.get(rows);
    if (found) return found;
    const groups = new Map<string, R[]>();
    for (const row of rows) {
      const key = keyOf(row);
      const group = groups.get(key);
      if (group) group.push(row);
      else groups.set(key, [row]);
    }
    known.set(rows, groups);
    return groups;
  };
}

/** Return a function that maps ids to rows and remembers the result for that list. */
export function identity<R extends { id: string }>(): (rows: R[]) => Map<string, R> {
  const known = new WeakMap<R[], Map<string, R>>();
  return (rows) => {
    let found = known.get(rows);
    if (!found) {
      found = new Map(rows.map((r) => [r.id, r]));
      known.set(rows, found);
    }
    return found;
  };
}

export const partitionsByGpu = grouping<Partition>((p) => p.gpu_id);
export const gpusByNode = grouping<Gpu>((g) => g.node_id);
export const sessionsByAllocation = grouping<Session>((s) => s.allocation_id);
export const allocationsById = identity<Allocation>();
