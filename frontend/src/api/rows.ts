// Rows of a cached list by kind, and the changes of the feed that are merged into them.
import type { Alarm, Allocation, Event, Gpu, Node, Partition, Pool, Session, Task } from "./client";

export interface Rows {
  alarm: Alarm;
  node: Node;
  gpu: Gpu;
  pool: Pool;
  partition: Partition;
  allocation: Allocation;
  session: Session;
  task: Task;
  event: Event;
}
export type Kind = keyof Rows;

export interface Row {
  id: string;
  state?: string;
  closed_at?: string | null;
}

/** The latest row of each changed object; null if the object was deleted. */
export type Fresh = Map<string, Row | null>;

/** Number of rows that are read of a kind that only grows. */
export const NEWEST = 100;
export const OPEN_STATES = ["queued", "preparing", "active", "suspended", "releasing"] as const;

/** Maximum number of cached rows of kinds that only grow. */
const MAX_ROWS: Partial<Record<Kind, number>> = {
  allocation: 500,
  task: NEWEST,
  event: NEWEST,
};

/** Drop the oldest rows above the maximum of a kind. Allocations that have not ended stay. */
export function limitRows<R extends { state?: string }>(kind: Kind, rows: R[]): R[] {
  const max = MAX_ROWS[kind];
  if (!max || rows.length <= max) return rows;
  return rows.filter(
    (row, i) => i < max || (OPEN_STATES as readonly string[]).includes(row.state ?? ""),
  );
}

const isGone = (kind: Kind, row: Row | null) =>
  row === null ||
  (kind === "session" && row.state === "closed") ||
  (kind === "alarm" && row.state === "cleared") ||
  (kind === "node" && row.state === "removed");

/** Return rows with changes. New rows come first; removed and closed rows are deleted. */
export function merged(kind: Kind, rows: Row[], fresh: Fresh): Row[] {
  const left = new Map(fresh);
  const present = (row: Row | null) => (row === null || isGone(kind, row) ? [] : [row]);
  const kept = rows.flatMap((old) => {
    const row = left.get(old.id);
    left.delete(old.id);
    return row === undefined ? [old] : present(row);
  });
  const added = [...left.values()].flatMap(present);
  return limitRows(kind, [...added.reverse(), ...kept]);
}

/** Record that an object has changed after those that were recorded before. */
export function note(fresh: Fresh, id: string, row: Row | null) {
  fresh.delete(id); // the latest change of an object decides, in its own place
  fresh.set(id, row);
}

const reads = new Map<Kind, Set<Fresh>>();

/** Let the lists of this kind that are being read have these changes. */
export function noteWhileRead(kind: Kind, fresh: Fresh) {
  for (const read of reads.get(kind) ?? []) for (const [id, row] of fresh) note(read, id, row);
}

/** Read a list. Changes that arrive meanwhile are merged: the answer may be older than they. */
export async function readMerged(kind: Kind, read: () => Promise<Row[]>): Promise<Row[]> {
  const fresh: Fresh = new Map();
  const running = reads.get(kind) ?? new Set<Fresh>();
  reads.set(kind, running.add(fresh));
  try {
    return merged(kind, await read(), fresh);
  } finally {
    running.delete(fresh);
  }
}
