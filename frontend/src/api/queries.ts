// One hook a kind. The live feed patches these caches; they are read again only after a gap.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { type Allocation, type Event, type Gpu, type Node, type Partition, type Pool, type Session, type Task, all, api, unwrap } from "./client";

interface Rows {
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

const RECENT = 100;
const whole = (cursor?: string) => ({ params: { query: { limit: 500, cursor } } });
const recent = { params: { query: { limit: RECENT } } };

const readers: { [K in Kind]: () => Promise<Rows[K][]> } = {
  node: () => all((c) => api.GET("/api/v1/nodes", whole(c)).then(unwrap)),
  gpu: () => all((c) => api.GET("/api/v1/gpus", whole(c)).then(unwrap)),
  pool: () => all((c) => api.GET("/api/v1/pools", whole(c)).then(unwrap)),
  partition: () => all((c) => api.GET("/api/v1/partitions", whole(c)).then(unwrap)),
  allocation: async () => (await api.GET("/api/v1/allocations", recent).then(unwrap)).items,
  session: () => all((c) => api.GET("/api/v1/sessions", { params: { query: { state: "running", limit: 500, cursor: c } } }).then(unwrap)),
  task: async () => (await api.GET("/api/v1/tasks", recent).then(unwrap)).items,
  event: async () => (await api.GET("/api/v1/events", recent).then(unwrap)).items,
};

/** How many rows the cache keeps of what only grows. */
export const KEPT: Partial<Record<Kind, number>> = { allocation: 500, task: RECENT, event: RECENT };

export const rowsOf = <K extends Kind>(kind: K) =>
  queryOptions({ queryKey: ["rows", kind], queryFn: readers[kind] as () => Promise<Rows[K][]>, staleTime: Number.POSITIVE_INFINITY });

export const useRows = <K extends Kind>(kind: K): Rows[K][] => useQuery(rowsOf(kind)).data ?? [];
export const useLoaded = (kind: Kind): boolean => useQuery(rowsOf(kind)).isSuccess;
export const isKind = (kind: string): kind is Kind => kind in readers;
