// Global search and command palette (Ctrl-K): every page, object and action by its name.
import { Modal, ModalBody, SearchInput } from "@patternfly/react-core";
import { useQueries } from "@tanstack/react-query";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, type RefObject, useMemo, useRef, useState } from "react";
import { useActions } from "../actions/queries";
import { perform } from "../actions/registry";
import { listQuery } from "../api/lists";
import { useRows } from "../api/queries";
import { useAccount } from "../model/account";
import type { Target } from "../model/kinds";
import { type MainPage, visiblePages } from "../model/mainPages";
import { t } from "../text/text";
import { type Entry, objectEntries, search } from "./entries";
import { type GlobalAction, globalActions } from "./globalActions";

/** All objects that the console knows. */
function useObjects() {
  const { me } = useAccount();
  const [nodes, gpus, pools] = [useRows("node"), useRows("gpu"), useRows("pool")];
  const [partitions, allocations] = [useRows("partition"), useRows("allocation")];
  const sessions = useRows("session");
  const manages = me.privileges.includes("accounts.manage");
  const [userList, groupList, projectList] = useQueries({
    queries: [
      { ...listQuery("users"), enabled: manages },
      { ...listQuery("groups"), enabled: manages },
      listQuery("projects"),
    ],
  });
  const [users, groups, projects] = [userList?.data, groupList?.data, projectList?.data];
  return useMemo(
    () =>
      objectEntries({
        nodes,
        gpus,
        pools,
        partitions,
        allocations,
        sessions,
        users: users ?? [],
        groups: groups ?? [],
        projects: projects ?? [],
      }),
    [nodes, gpus, pools, partitions, allocations, sessions, users, groups, projects],
  );
}

function pageEntry({ to, label: key }: MainPage): Entry {
  const label = t(key);
  return { id: to, label, detail: t("search.page"), haystack: label.toLowerCase(), to };
}

function actionEntry({ label: key, denied, run }: GlobalAction): Entry {
  const label = t(key);
  return {
    id: key,
    label,
    detail: denied || t("search.action"),
    haystack: label.toLowerCase(),
    ...(denied ? {} : { run }),
  };
}

function useEntries(query: string): Entry[] {
  const { me } = useAccount();
  const objects = useObjects();
  const pages = useMemo(
    () => [...globalActions(me).map(actionEntry), ...visiblePages(me).map(pageEntry)],
    [me],
  );
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

interface ResultsProps {
  entries: Entry[];
  /** Index of the entry that Enter chooses. */
  chosen: number;
  reasons: Map<string, string>;
  list: RefObject<HTMLDivElement | null>;
  choose: (entry: Entry) => void;
  setAt: (index: number) => void;
}

function Results({ entries, chosen, reasons, list, choose, setAt }: ResultsProps) {
  return (
    <div ref={list} role="listbox" aria-label={t("search.results")} className="bb-palette__list">
      {entries.map((e, i) => (
        // biome-ignore lint/a11y/useKeyWithClickEvents: the search field handles the keys
        <div
          key={e.id}
          role="option"
          tabIndex={-1}
          aria-selected={i === chosen}
          aria-disabled={isOff(e, reasons)}
          className="bb-palette__entry"
          onClick={() => choose(e)}
          onPointerMove={() => setAt(i)}
        >
          <bdi>{e.label}</bdi>
          <span className="bb-quiet">{reasons.get(e.id) ?? e.detail}</span>
        </div>
      ))}
    </div>
  );
}

const isOff = (e: Entry, reasons: Map<string, string>) =>
  reasons.has(e.id) || !(e.to || e.run || e.action);

/** Return a function that closes the palette and does what an entry offers. */
function useChoice(reasons: Map<string, string>, close: () => void) {
  const navigate = useNavigate();
  return (entry: Entry | undefined) => {
    if (!entry || isOff(entry, reasons)) return;
    close();
    if (entry.to) void navigate({ to: entry.to });
    entry.run?.();
    if (entry.action) void perform(entry.action.spec, [entry.action.target]);
  };
}

/** The entry that Enter chooses, and the keys that move on from it. */
function useCursor(entries: Entry[], choose: (entry: Entry | undefined) => void) {
  const [at, setAt] = useState(0);
  const list = useRef<HTMLDivElement>(null);
  const chosen = Math.min(at, entries.length - 1);
  const onKeyDown = (e: KeyboardEvent) => {
    const step = e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : 0;
    if (e.key === "Enter") choose(entries[chosen]);
    else if (!step) return;
    e.preventDefault();
    const next = Math.max(0, Math.min(entries.length - 1, chosen + step));
    setAt(next);
    list.current?.children[next]?.scrollIntoView({ block: "nearest" });
  };
  return { chosen, setAt, list, onKeyDown };
}

export function Palette({ close }: { close: () => void }) {
  const [query, setQuery] = useState("");
  const entries = useEntries(query);
  const reasons = useReasons(entries);
  const choose = useChoice(reasons, close);
  const { onKeyDown, ...cursor } = useCursor(entries, choose);
  return (
    <Modal isOpen variant="small" position="top" onClose={close} aria-label={t("frame.search")}>
      <ModalBody className="bb-palette">
        <SearchInput
          aria-label={t("frame.search")}
          placeholder={t("frame.search")}
          value={query}
          onChange={(_, v) => {
            setQuery(v);
            cursor.setAt(0);
          }}
          onClear={() => setQuery("")}
          onKeyDown={onKeyDown}
          searchInputId="palette"
          autoFocus
        />
        <Results {...{ entries, reasons, choose }} {...cursor} />
        {entries.length === 0 && (
          <p className="bb-quiet">{t("state.noMatchBody", { filter: query })}</p>
        )}
      </ModalBody>
    </Modal>
  );
}
