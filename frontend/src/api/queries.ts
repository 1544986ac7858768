// Cached lists by kind. Changes of the live feed are merged into their rows; they are reloaded only
// after a gap.
import { queryOptions, useQuery } from "@tanstack/react-query";
import {
  type Alarm,
  type Allocation,
  type Event,
  type Gpu,
  type Node,
  type Partition,
  type Pool,
  type Session,
  type Task,
  readAllPages,
  api,
  unwrap,
} from "./client";
import { isFinal } from "./cache";

interface Rows {
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
const NEWEST = 100;
const OPEN_STATES = ["queued", "preparing", "active", "suspended", "releasing"] as const;

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

const everyPage = (cursor?: string) => ({ params: { query: { limit: 500, cursor } } });
const newestPage = { params: { query: { limit: NEWEST } } };

/** Read all allocations that have not ended, and the newest of those that have. */
async function readAllocations(): Promise<Allocation[]> {
  const open = OPEN_STATES.map((state) =>
    readAllPages((cursor) =>
      api
        .GET("/api/v1/allocations", { params: { query: { state, limit: 500, cursor } } })
        .then(unwrap),
    ),
  );
  const newest = api.GET("/api/v1/allocations", newestPage).then(unwrap);
  const [pages, page] = await Promise.all([Promise.all(open), newest]);
  const rows = [...pages.flat(), ...page.items];
  const unique = new Map(rows.map((a) => [a.id, a]));
  return [...unique.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
}

const readers: { [K in Kind]: () => Promise<Rows[K][]> } = {
  alarm: () =>
    readAllPages((c) =>
      api
        .GET("/api/v1/alarms", { params: { query: { open: true, limit: 500, cursor: c } } })
        .then(unwrap),
    ),
  node: () => readAllPages((c) => api.GET("/api/v1/nodes", everyPage(c)).then(unwrap)),
  gpu: () => readAllPages((c) => api.GET("/api/v1/gpus", everyPage(c)).then(unwrap)),
  pool: () => readAllPages((c) => api.GET("/api/v1/pools", everyPage(c)).then(unwrap)),
  partition: () => readAllPages((c) => api.GET("/api/v1/partitions", everyPage(c)).then(unwrap)),
  allocation: readAllocations,
  session: () =>
    readAllPages((c) =>
      api
        .GET("/api/v1/sessions", { params: { query: { state: "running", limit: 500, cursor: c } } })
        .then(unwrap),
    ),
  task: async () => (await api.GET("/api/v1/tasks", newestPage).then(unwrap)).items,
  event: async () => (await api.GET("/api/v1/events", newestPage).then(unwrap)).items,
};

export const rowsQuery = <K extends Kind>(kind: K) =>
  queryOptions({
    queryKey: ["rows", kind],
    queryFn: () => readMerged(kind, readers[kind]) as Promise<Rows[K][]>,
    staleTime: Number.POSITIVE_INFINITY,
    // A refused list is read again with the next feed: other roles end the one that is open.
    retryOnMount: (query) => !isFinal(query.state.error),
  });

const NONE: never[] = [];
/** Rows of a kind, empty until they are loaded: use it below `Loaded`, which shows the states. */
export const useRows = <K extends Kind>(kind: K): Rows[K][] =>
  useQuery(rowsQuery(kind)).data ?? NONE;
export const useLoaded = (kind: Kind): boolean => useQuery(rowsQuery(kind)).isSuccess;
export const isKind = (kind: string): kind is Kind => kind in readers;
