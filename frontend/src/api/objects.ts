// One object of a kind that forms edit: read with its version, and changed in that version.
import { t } from "../text/text";
import { cache } from "./cache";
import {
  type AlarmDefinition,
  type Allocation,
  type Gpu,
  type Me,
  type Node,
  type Pool,
  type Schema,
  api,
  unwrap,
} from "./client";
import { applyChanges } from "./feed";

/** Kinds by their path: an object, and a request that changes it. */
interface Kinds {
  "alarm-definitions": [AlarmDefinition, Schema<"PatchedAlarmDefinitionRequest">];
  allocations: [Allocation, Schema<"PatchedResizeRequest">];
  departments: [Schema<"Department">, Schema<"PatchedDepartmentRequest">];
  gpus: [Gpu, Schema<"PatchedGpuChange">];
  groups: [Schema<"Group">, Schema<"PatchedGroupRequest">];
  nodes: [Node, Schema<"PatchedNodeChange">];
  pools: [Pool, Schema<"PatchedPoolSettings">];
  projects: [Schema<"Project">, Schema<"PatchedProjectRequest">];
  quotas: [Schema<"Quota">, Schema<"PatchedQuotaSettings">];
  roles: [Schema<"Role">, Schema<"PatchedRoleChange">];
  sites: [Schema<"Site">, Schema<"PatchedSiteRequest">];
  users: [Schema<"User">, Schema<"PatchedUserChange">];
}
export type EditableKind = keyof Kinds;
export type ObjectOf<K extends EditableKind> = Kinds[K][0];
export type ChangeOf<K extends EditableKind> = Kinds[K][1];

/** The path of an object, with the type of one kind: `Kinds` has those of all. */
const at = (kind: EditableKind, id: string) => `/api/v1/${kind}/${id}` as "/api/v1/pools/{pool_id}";

export interface Read<K extends EditableKind> {
  row: ObjectOf<K>;
  /** Its ETag. */
  version: string;
}

/** Read an object. Throws an error for the user if it no longer exists. */
export async function readObject<K extends EditableKind>(kind: K, id: string): Promise<Read<K>> {
  const answer = await api.GET(at(kind, id), { params: { path: { pool_id: id } } });
  const { status, headers } = answer.response;
  if (status === 404) throw new Error(t("result.gone"));
  const row = unwrap(answer) as unknown as ObjectOf<K>;
  return { row, version: headers.get("ETag") ?? "*" };
}

/** Change an object in the version that the user has seen. Throws Problem 412 for another one. */
export async function changeObject<K extends EditableKind>(
  kind: K,
  id: string,
  body: ChangeOf<K>,
  version: string,
): Promise<ObjectOf<K>> {
  const headers = { "If-Match": version };
  const params = { path: { pool_id: id } };
  const answer = await api.PATCH(at(kind, id), { params, headers, body: body as object });
  const row = unwrap(answer);
  showChanged(kind, row);
  return row as unknown as ObjectOf<K>;
}

/** Show a changed row at once: a role at one object of the inventory does not show its changes. */
function showChanged(kind: EditableKind, row: { id: string; version?: number }) {
  const feedKind = kind.slice(0, -1);
  const rows = cache.getQueryData<(typeof row)[]>(["rows", feedKind]) ?? [];
  const known = rows.find((r) => r.id === row.id);
  if (known && (known.version ?? 0) < (row.version ?? 0))
    applyChanges(cache, [{ sequence: 0, kind: feedKind, id: row.id, row }]);
}

/** The number in an ETag. */
const numberOf = (version: string) => Number(version.replaceAll('"', ""));

type AuditRecord = Schema<"AuditRecord">;
const versionOf = ({ after }: AuditRecord) => Number((after as { version?: number })?.version ?? 0);

const MOST_RECORDS = 500;

/**
 * Read the records of an object from the newest one back to that of a version. Returns none if that
 * is not among the newest MOST_RECORDS.
 */
async function recordsSince(id: string, version: number): Promise<AuditRecord[]> {
  const isOld = (record: AuditRecord) => versionOf(record) > 0 && versionOf(record) <= version;
  const found: AuditRecord[] = [];
  let cursor: string | undefined;
  do {
    const query = { object_id: id, outcome: "succeeded" as const, limit: 100, cursor };
    const page = await api.GET("/api/v1/audit", { params: { query } }).then(unwrap);
    found.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor && found.length < MOST_RECORDS && !found.some(isOld));
  return cursor && !found.some(isOld) ? [] : found;
}

/**
 * Return who has made the changes of an object between two versions, or "" if several users have,
 * or if that cannot be known. Versions without a record are those of the appliance itself, such as
 * that of the grant of a resize.
 */
export async function changesBy(id: string, from: string, to: string): Promise<string> {
  if (!cache.getQueryData<Me>(["me"])?.privileges.includes("audit.read")) return "";
  const records = await recordsSince(id, numberOf(from)).catch(() => []); // shown in any case
  const isBetween = (record: AuditRecord) =>
    numberOf(from) < versionOf(record) && versionOf(record) <= numberOf(to);
  const found = new Set(records.filter(isBetween).map((r) => r.actor));
  const [actor = ""] = found;
  return found.size === 1 && actor !== "system" ? actor : "";
}
