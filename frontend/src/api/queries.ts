// Cached lists by kind. The live feed updates them; they are reloaded only after a gap.
import { queryOptions, useQuery } from "@tanstack/react-query";
import { isFinal } from "./cache";
import { type Allocation, readAllPages, api, unwrap } from "./client";
import { type Kind, NEWEST, OPEN_STATES, type Rows, readMerged } from "./rows";

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
