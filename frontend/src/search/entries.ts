// The palette finds pages, objects and actions. It matches words in any order.
import { specsOf } from "../actions/registry";
import type { Spec } from "../actions/spec";
import type { Session } from "../api/client";
import type { Inventory } from "../inventory/treeModel";
import type { Target } from "../model/kinds";
import { allocationName } from "../model/allocationNames";
import { t } from "../text/text";
import { bestFirst } from "./ranking";

export interface Entry {
  id: string;
  label: string;
  detail: string;
  haystack: string;
  to?: string;
  run?: () => void;
  /** An action on an object: the server decides whether it is offered. */
  action?: { spec: Spec; target: Target };
}

const SHOWN = 40;
const labelsText = (labels: unknown) =>
  Object.entries((labels ?? {}) as Record<string, string>)
    .map(([k, v]) => `${k}=${v}`)
    .join(" ");

function objectEntry(target: Target, detail: string, more: string): Entry {
  return {
    id: `${target.kind}/${target.id}`,
    label: target.name,
    detail,
    haystack: `${target.name} ${detail} ${more}`.toLowerCase(),
    to: `/${target.kind}/${target.id}`,
  };
}

type Named = { id: string; name?: string; username?: string };
export interface Found extends Inventory {
  sessions: Session[];
  users: Named[];
  groups: Named[];
  projects: Named[];
}

/** Return all objects that the console knows. */
export function objectEntries(data: Found): { target: Target; entry: Entry }[] {
  const found: { target: Target; entry: Entry }[] = [];
  const add = (target: Target, detail: string, more = "") =>
    found.push({ target, entry: objectEntry(target, detail, more) });
  for (const n of data.nodes)
    add({ kind: "nodes", id: n.id, name: n.name }, t("kind.nodes"), labelsText(n.labels));
  for (const g of data.gpus)
    add(
      { kind: "gpus", id: g.id, name: `${g.node} GPU ${g.index}` },
      g.model,
      `${g.uuid} ${labelsText(g.labels)}`,
    );
  for (const p of data.pools) add({ kind: "pools", id: p.id, name: p.name }, t("kind.pools"));
  for (const a of data.allocations)
    add(
      { kind: "allocations", id: a.id, name: allocationName(a) },
      t("search.allocation", { owner: a.owner, state: a.state ?? "" }),
      `${a.project} ${labelsText(a.labels)}`,
    );
  for (const s of data.sessions)
    add(
      { kind: "sessions", id: s.id, name: s.program || s.id.slice(0, 8) },
      t("search.session", { host: s.client_address }),
    );
  for (const [kind, rows] of [
    ["projects", data.projects],
    ["users", data.users],
    ["groups", data.groups],
  ] as const)
    for (const r of rows)
      add({ kind, id: r.id, name: r.username ?? r.name ?? r.id }, t(`kind.${kind}`));
  return found;
}

/** Return the entries that contain all words of the query; better matches come first. */
export function search(
  query: string,
  pages: Entry[],
  objects: { target: Target; entry: Entry }[],
): Entry[] {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (text: string) => words.every((w) => text.includes(w));
  if (words.length === 0) return pages;
  const found = [...pages.filter((p) => fits(p.haystack))];
  const matching = bestFirst(
    words,
    objects.map((o) => o.entry),
  );
  found.push(...matching.slice(0, SHOWN));
  for (const { target, entry } of objects) {
    if (found.length >= 2 * SHOWN) break;
    for (const spec of specsOf(target.kind)) {
      const label = `${t(spec.label)}: ${target.name}`;
      const verb = t(spec.label).toLowerCase();
      if (!words.some((w) => verb.includes(w)) || !fits(`${verb} ${entry.haystack}`)) continue;
      found.push({
        id: `${entry.id}#${spec.name}`,
        label,
        detail: entry.detail,
        haystack: "",
        action: { spec, target },
      });
    }
  }
  return found.slice(0, SHOWN);
}
