// Kinds of objects: their paths in the REST API are also their paths here.
import type { Key } from "../text/text";

/** Kinds that have a workspace. */
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

/** Kinds that only lists show, with the actions of each row. */
export type ListedKind =
  | "alarms"
  | "alarm-definitions"
  | "quotas"
  | "reservations"
  | "role-bindings"
  | "roles"
  | "sites"
  | "tasks"
  | "tokens";

/** An object that has actions. */
export interface Actionable {
  kind: KindName | ListedKind;
  id: string;
  name: string;
  /** State on which it depends which actions are offered. */
  state?: string;
  /** The version that the user sees, where an action changes the object without a form. */
  version?: number;
}

/** An object that an action, a link or a search result refers to. */
export interface Target extends Actionable {
  kind: KindName;
}
export const pathOf = (target: Pick<Target, "kind" | "id">) => `/${target.kind}/${target.id}`;
export const kindKey = (kind: KindName): Key => `kind.${kind}`;
