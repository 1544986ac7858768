// Lists that the live feed does not carry: read when a page opens and after each change.
import { queryOptions } from "@tanstack/react-query";
import { type Pool, api, readAllPages, unwrap } from "./client";
import { rowsQuery } from "./queries";

const page = (cursor?: string) => ({ params: { query: { limit: 500, cursor } } });
// The feed carries pools: they have one cache, that of its rows.
const POOLS = rowsQuery("pool");

const readers = {
  users: () => readAllPages((c) => api.GET("/api/v1/users", page(c)).then(unwrap)),
  groups: () => readAllPages((c) => api.GET("/api/v1/groups", page(c)).then(unwrap)),
  roles: () => readAllPages((c) => api.GET("/api/v1/roles", page(c)).then(unwrap)),
  bindings: () => readAllPages((c) => api.GET("/api/v1/role-bindings", page(c)).then(unwrap)),
  tokens: () => readAllPages((c) => api.GET("/api/v1/tokens", page(c)).then(unwrap)),
  projects: () => readAllPages((c) => api.GET("/api/v1/projects", page(c)).then(unwrap)),
  departments: () => readAllPages((c) => api.GET("/api/v1/departments", page(c)).then(unwrap)),
  quotas: () => readAllPages((c) => api.GET("/api/v1/quotas", page(c)).then(unwrap)),
  reservations: () => readAllPages((c) => api.GET("/api/v1/reservations", page(c)).then(unwrap)),
  sites: () => readAllPages((c) => api.GET("/api/v1/sites", page(c)).then(unwrap)),
  pools: POOLS.queryFn as () => Promise<Pool[]>,
  alarmDefinitions: () =>
    readAllPages((c) => api.GET("/api/v1/alarm-definitions", page(c)).then(unwrap)),
  hostKeys: () => readAllPages((c) => api.GET("/api/v1/ssh-host-keys", page(c)).then(unwrap)),
};
export type ListName = keyof typeof readers;
type Rows<N extends ListName> = Awaited<ReturnType<(typeof readers)[N]>>;
export type RowOf<N extends ListName> = Rows<N>[number];

export const listQuery = <N extends ListName>(name: N) =>
  queryOptions({
    queryKey: name === "pools" ? ["rows", "pool"] : ["list", name],
    queryFn: readers[name] as () => Promise<Rows<N>>,
    staleTime: 5_000, // of pools too: no feed says that the user may no longer view one
  });
