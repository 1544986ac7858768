// Events with filters: pages of the past from the appliance, and new ones from the live feed.
import { Button } from "@patternfly/react-core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Event, api, unwrap } from "../api/client";
import { useRows } from "../api/queries";
import { t } from "../text/text";
import { ErrorState, LoadingState, StateBlock } from "../ui/states";
import { EventFilterBar, type TypedFilter } from "./EventFilterBar";
import { EventTable } from "./EventTable";

const PAGE = 100;

export interface EventFilter {
  kind?: string;
  actor?: string;
  object_id?: string;
  path?: string;
  since?: string;
  until?: string;
}

/** Whether the live feed's event belongs to the filtered list. */
export function fits(e: Event, f: EventFilter): boolean {
  return (
    (!f.kind || e.kind === f.kind) &&
    (!f.actor || e.actor === f.actor) &&
    (!f.object_id || e.object_id === f.object_id) &&
    (!f.path || e.path.startsWith(f.path)) &&
    (!f.since || (e.created_at ?? "") >= f.since) &&
    !f.until
  );
}

function useEvents(filter: EventFilter) {
  const query = useInfiniteQuery({
    queryKey: ["detail", "events", filter],
    queryFn: ({ pageParam }) =>
      api
        .GET("/api/v1/events", {
          params: {
            query: { ...filter, limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) },
          },
        })
        .then(unwrap),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
  });
  const live = useRows("event");
  const rows = useMemo(() => {
    const found = new Map<string, Event>();
    for (const e of live) if (fits(e, filter)) found.set(e.id, e);
    for (const page of query.data?.pages ?? []) for (const e of page.items) found.set(e.id, e);
    return [...found.values()].sort((a, b) => (a.id < b.id ? 1 : -1));
  }, [live, query.data, filter]);
  return { query, rows };
}

const moment = (local: string) => (local ? new Date(local).toISOString() : undefined);

/** Return what the pane is fixed to and what the user has typed as one filter. */
function useFilter(fixed: EventFilter, { kind, actor, from, to }: TypedFilter): EventFilter {
  const { path, object_id, actor: fixedActor } = fixed;
  return useMemo((): EventFilter => {
    const [since, until] = [moment(from), moment(to)];
    return {
      ...(path ? { path } : {}),
      ...(object_id ? { object_id } : {}),
      ...(kind ? { kind } : {}),
      ...(fixedActor || actor ? { actor: fixedActor ?? actor } : {}),
      ...(since ? { since } : {}),
      ...(until ? { until } : {}),
    };
  }, [path, object_id, fixedActor, kind, actor, from, to]);
}

function Events({ query, rows }: ReturnType<typeof useEvents>) {
  if (query.isPending) return <LoadingState />;
  if (query.error && rows.length === 0)
    return <ErrorState error={query.error} retry={() => void query.refetch()} />;
  if (rows.length === 0) return <StateBlock level="h3" title={t("event.none")} />;
  return <EventTable events={rows} />;
}

interface PaneProps {
  fixed?: EventFilter;
  hasFilters?: boolean;
}

export function EventsPane({ fixed = {}, hasFilters = false }: PaneProps) {
  const [typed, setTyped] = useState<TypedFilter>({ kind: "", actor: "", from: "", to: "" });
  const { query, rows } = useEvents(useFilter(fixed, typed));
  const put = (fresh: Partial<TypedFilter>) => setTyped((old) => ({ ...old, ...fresh }));
  return (
    <>
      {hasFilters && <EventFilterBar {...{ typed, put, rows }} />}
      <Events query={query} rows={rows} />
      {query.hasNextPage && (
        <Button
          variant="link"
          isLoading={query.isFetchingNextPage}
          onClick={() => void query.fetchNextPage()}
        >
          {t("event.older")}
        </Button>
      )}
    </>
  );
}
