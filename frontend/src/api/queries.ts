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
const whole = (cursor?: string) => ({ params: { query: { limit: 500, cursor } as never } });
const recent = { params: { query: { limit: RECENT } as never } };
type Page<T> = { items: T[]; next: string | null };
const page = async <T>(answer: Promise<{ data?: unknown; error?: unknown; response: Response }>) => unwrap(await answer) as Page<T>;

const readers: { [K in Kind]: () => Promise<Rows[K][]> } = {
  node: () => all((c) => page<Node>(api.GET("/api/v1/nodes", whole(c)))),
  gpu: () => all((c) => page<Gpu>(api.GET("/api/v1/gpus", whole(c)))),
  pool: () => all((c) => page<Pool>(api.GET("/api/v1/pools", whole(c)))),
  partition: () => all((c) => page<Partition>(api.GET("/api/v1/partitions", whole(c)))),
  allocation: async () => (await page<Allocation>(api.GET("/api/v1/allocations", recent))).items,
  session: () => all((c) => page<Session>(api.GET("/api/v1/sessions", { params: { query: { state: "running", limit: 500, cursor: c } as never } }))),
  task: async () => (await page<Task>(api.GET("/api/v1/tasks", recent))).items,
  event: async () => (await page<Event>(api.GET("/api/v1/events", recent))).items,
};

/** How many rows the cache keeps of what only grows. */
export const KEPT: Partial<Record<Kind, number>> = { allocation: 500, task: RECENT, event: RECENT };

export const rowsOf = <K extends Kind>(kind: K) =>
  queryOptions({ queryKey: ["rows", kind], queryFn: readers[kind] as () => Promise<Rows[K][]>, staleTime: Number.POSITIVE_INFINITY });

export const useRows = <K extends Kind>(kind: K): Rows[K][] => useQuery(rowsOf(kind)).data ?? [];
export const useLoaded = (kind: Kind): boolean => useQuery(rowsOf(kind)).isSuccess;
export const isKind = (kind: string): kind is Kind => kind in readers;
