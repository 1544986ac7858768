// Global search and command palette (Ctrl-K): every page, object and action by its name.
import { Modal, ModalBody, SearchInput } from "@patternfly/react-core";
import { useQueries } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, useMemo, useRef, useState } from "react";
import { useActions } from "../actions/queries";
import { perform } from "../actions/registry";
import { listQuery } from "../api/lists";
import { useRows } from "../api/queries";
import { useAccount } from "../model/account";
import type { Target } from "../model/kinds";
import { visiblePages } from "../model/mainPages";
import { t } from "../text/text";
import { type Entry, objectEntries, search } from "./entries";
import { globalActions } from "./globalActions";

function useEntries(query: string): Entry[] {
  const { me } = useAccount();
  const inventory = {
    nodes: useRows("node"),
    gpus: useRows("gpu"),
    pools: useRows("pool"),
    partitions: useRows("partition"),
    allocations: useRows("allocation"),
    sessions: useRows("session"),
  };
  const manages = me.privileges.includes("accounts.manage");
  const [users, groups, projects] = useQueries({
    queries: [
      { ...listQuery("users"), enabled: manages },
      { ...listQuery("groups"), enabled: manages },
      listQuery("projects"),
    ],
  });
  const { nodes, gpus, pools, partitions, allocations, sessions } = inventory;
  const objects = useMemo(
    () =>
      objectEntries({
        nodes,
        gpus,
        pools,
        partitions,
        allocations,
        sessions,
        users: users?.data ?? [],
        groups: groups?.data ?? [],
        projects: projects?.data ?? [],
      }),
    [nodes, gpus, pools, partitions, allocations, sessions, users, groups, projects],
  );
  const pages = useMemo(() => {
    const places = visiblePages(me).map((p): Entry => {
      const label = t(p.label);
      return { id: p.to, label, detail: t("search.page"), haystack: label.toLowerCase(), to: p.to };
    });
    const actions = globalActions(me).map((a): Entry => {
      const label = t(a.label);
      return {
        id: a.label,
        label,
        detail: a.denied || t("search.action"),
        haystack: label.toLowerCase(),
        ...(a.denied ? {} : { run: a.run }),
      };
    });
    return [...actions, ...places];
  }, [me]);
  return useMemo(() => search(query, pages, objects), [query, pages, objects]);
}

/** Reasons why the entries' actions are refused, by entry. */
function useReasons(entries: Entry[]): Map<string, string> {
  const targets = entries.flatMap((e) => (e.action ? [e.action.target] : []));
  const unique = [...new Map(targets.map((x): [string, Target] => [x.id, x])).values()];
  const answers = useActions(unique);
  return new Map(
    entries.flatMap((e): [string, string][] => {
      if (!e.action) return [];
      const { spec, target } = e.action;
      const answer = answers?.get(`${target.kind}/${target.id}`)?.find((a) => a.name === spec.name);
      return answer && !answer.allowed ? [[e.id, answer.reason ?? ""]] : [];
    }),
  );
}

export function Palette({ close }: { close: () => void }) {
  const [query, setQuery] = useState("");
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const navigate = useNavigate();
  const entries = useEntries(query);
  const reasons = useReasons(entries);
  const chosen = Math.min(at, entries.length - 1);

  const choose = (entry: Entry | undefined) => {
    if (!entry || reasons.has(entry.id) || !(entry.to || entry.run || entry.action)) return;
    close();
    if (entry.to) void navigate({ to: entry.to });
    entry.run?.();
    if (entry.action) void perform(entry.action.spec, [entry.action.target]);
  };
  const onKeyDown = (e: KeyboardEvent) => {
    const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
    if (e.key === "Enter") choose(entries[chosen]);
    else if (!step) return;
    e.preventDefault();
    const next = Math.max(0, Math.min(entries.length - 1, chosen + step));
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  return (
    <Modal isOpen variant="small" position="top" onClose={close} aria-label={t("frame.search")}>
      <ModalBody className="bb-palette">
        <SearchInput
          aria-label={t("frame.search")}
          placeholder={t("frame.search")}
          value={query}
          onChange={(_, v) => {
            setQuery(v);
            setAt(0);
          }}
          onClear={() => setQuery("")}
          onKeyDown={onKeyDown}
          searchInputId="palette"
          autoFocus
        />
        <div
          ref={list}
          role="listbox"
          aria-label={t("search.results")}
          className="bb-palette__list"
        >
          {entries.map((e, i) => {
            const refused = reasons.get(e.id);
            const disabled = refused !== undefined || !(e.to || e.run || e.action);
            return (
              // biome-ignore lint/a11y/useKeyWithClickEvents: the search field handles the keys
              <div
                key={e.id}
                role="option"
                tabIndex={-1}
                aria-selected={i === chosen}
                aria-disabled={disabled}
                className="bb-palette__entry"
                onClick={() => choose(e)}
                onPointerMove={() => setAt(i)}
              >
                <bdi>{e.label}</bdi>
                <span className="bb-quiet">{refused ?? e.detail}</span>
              </div>
            );
          })}
        </div>
        {entries.length === 0 && (
          <p className="bb-quiet">{t("state.noMatchBody", { filter: query })}</p>
        )}
      </ModalBody>
    </Modal>
  );
}
