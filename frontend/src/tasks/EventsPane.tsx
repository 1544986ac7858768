// Events with filters: pages of the past from the appliance, and new ones from the live feed.
import {
  Button,
  FormSelect,
  FormSelectOption,
  TextInput,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from "@patternfly/react-core";
import { useInfiniteQuery } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { type Event, api, unwrap } from "../api/client";
import { useRows } from "../api/queries";
import { humanize } from "../model/format";
import { catalogue } from "../text/catalogue";
import { coded, t } from "../text/text";
import { downloadCsv } from "../ui/csv";
import { ErrorState, LoadingState, StateBlock } from "../ui/states";
import { EventTable } from "./EventTable";

const PAGE = 100;
const KINDS = Object.keys(catalogue)
  .flatMap((k) => (k.startsWith("event.") && k.split(".").length === 3 ? [k.slice(6)] : []))
  .sort();

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

export function EventsPane({
  fixed = {},
  hasFilters = false,
}: {
  fixed?: EventFilter;
  hasFilters?: boolean;
}) {
  const [kind, setKind] = useState("");
  const [actor, setActor] = useState("");
  const [from, setFrom] = useState("");
  const [to, setTo] = useState("");
  const { path, object_id, actor: fixedActor } = fixed;
  const filter = useMemo((): EventFilter => {
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
  const { query, rows } = useEvents(filter);
  return (
    <>
      {hasFilters && (
        <Toolbar inset={{ default: "insetNone" }} className="bb-toolbar">
          <ToolbarContent>
            <ToolbarItem>
              <FormSelect aria-label={t("event.kind")} value={kind} onChange={(_, v) => setKind(v)}>
                <FormSelectOption value="" label={t("event.kind")} />
                {KINDS.map((k) => (
                  <FormSelectOption key={k} value={k} label={coded("event", k, humanize(k))} />
                ))}
              </FormSelect>
            </ToolbarItem>
            <ToolbarItem>
              <TextInput
                aria-label={t("event.actor")}
                placeholder={t("event.actor")}
                value={actor}
                onChange={(_, v) => setActor(v)}
              />
            </ToolbarItem>
            <ToolbarItem>
              <TextInput
                type="datetime-local"
                aria-label={t("event.from")}
                value={from}
                onChange={(_, v) => setFrom(v)}
              />
            </ToolbarItem>
            <ToolbarItem>
              <TextInput
                type="datetime-local"
                aria-label={t("event.to")}
                value={to}
                onChange={(_, v) => setTo(v)}
              />
            </ToolbarItem>
            <ToolbarItem align={{ default: "alignEnd" }} alignSelf="center">
              <Button
                variant="link"
                isInline
                onClick={() =>
                  downloadCsv(
                    "events",
                    rows.map((e) => [e.created_at ?? "", e.kind, e.path, e.actor, e.message]),
                  )
                }
              >
                {t("common.csv")}
              </Button>
            </ToolbarItem>
          </ToolbarContent>
        </Toolbar>
      )}
      {query.isPending ? (
        <LoadingState />
      ) : query.error && rows.length === 0 ? (
        <ErrorState error={query.error} retry={() => void query.refetch()} />
      ) : rows.length === 0 ? (
        <StateBlock level="h3" title={t("event.none")} />
      ) : (
        <EventTable events={rows} />
      )}
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
