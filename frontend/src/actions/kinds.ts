// Kinds of objects that have a workspace: their paths in the REST API are also their paths here.
import type { Key } from "../text/text";

export const KINDS = [
  "nodes",
  "gpus",
  "pools",
  "projects",
  "departments",
  "allocations",
  "sessions",
  "users",
  "groups",
] as const;
export type KindName = (typeof KINDS)[number];

/** An object that an action, a link or a search result refers to. */
export interface Target {
  kind: KindName;
  id: string;
  name: string;
}
export const pathOf = (target: Pick<Target, "kind" | "id">) => `/${target.kind}/${target.id}`;
export const kindKey = (kind: KindName): Key => `kind.${kind}`;
