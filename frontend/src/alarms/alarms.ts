// Alarms: order and counts.
import type { Alarm } from "../api/client";
import type { KindName, Target } from "../model/kinds";
import { counted } from "../text/text";

const RANK: Record<string, number> = { critical: 0, warning: 1, info: 2 };
export const STATUS = { critical: "danger", warning: "warning", info: "info" } as const;
export const rankOf = (a: Alarm) => RANK[a.severity] ?? 3;

/** Return the most severe of the alarms. */
export const worstOf = (alarms: readonly Alarm[]): Alarm["severity"] | undefined =>
  [...alarms].sort((a, b) => rankOf(a) - rankOf(b))[0]?.severity;

export const countText = (alarms: readonly Alarm[]) =>
  counted(worstOf(alarms) === "critical" ? "alarm.countCritical" : "alarm.count", alarms.length);

const FIELDS: Partial<Record<KindName, (a: Alarm) => string | null | undefined>> = {
  nodes: (a) => a.node_id,
  gpus: (a) => a.object_id,
  pools: (a) => a.pool_id,
  projects: (a) => a.project_id,
  allocations: (a) => a.object_id,
};
export const hasAlarms = (kind: KindName) => kind in FIELDS;

/** Return the alarms of an object and of what lies below it. */
export const alarmsOf = (alarms: readonly Alarm[], target: Pick<Target, "kind" | "id">) => {
  const idOf = FIELDS[target.kind];
  return idOf ? alarms.filter((a) => idOf(a) === target.id) : [];
};
