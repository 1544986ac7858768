// Link to an object that an event, a task or an audit record names by its path or id.
import { Link } from "@tanstack/react-router";
import { openContextMenu } from "../actions/ActionMenu";
import { allocationsById, identity } from "../api/indexes";
import type { Gpu, Node, Pool, Session } from "../api/client";
import { useRows } from "../api/queries";
import { KINDS, type KindName, type Target, kindKey, pathOf } from "../model/kinds";
import { allocationName } from "../model/allocationNames";
import { t } from "../text/text";

const isKindName = (text: string): text is KindName => (KINDS as readonly string[]).includes(text);
const nodesById = identity<Node>();
const gpusById = identity<Gpu>();
const poolsById = identity<Pool>();
const sessionsById = identity<Session>();

/** Return the object at the end of a path such as `projects/ID/allocations/ID`. */
export function lastOf(path: string): { kind: KindName; id: string } | null {
  const parts = path.split("/");
  const [kind, id] = [parts.at(-2) ?? "", parts.at(-1) ?? ""];
  return isKindName(kind) && id ? { kind, id } : null;
}

/** Return a function that names objects as far as this page knows them. */
export function useNames(): (kind: KindName, id: string) => string {
  const [nodes, gpus, pools] = [useRows("node"), useRows("gpu"), useRows("pool")];
  const [allocations, sessions] = [useRows("allocation"), useRows("session")];
  return (kind, id) => {
    if (kind === "nodes") return nodesById(nodes).get(id)?.name ?? "";
    if (kind === "pools") return poolsById(pools).get(id)?.name ?? "";
    if (kind === "sessions") return sessionsById(sessions).get(id)?.program ?? "";
    if (kind === "gpus") {
      const gpu = gpusById(gpus).get(id);
      return gpu ? gpuName(gpu) : "";
    }
    const allocation = kind === "allocations" ? allocationsById(allocations).get(id) : undefined;
    return allocation ? allocationName(allocation) : "";
  };
}
export const gpuName = (gpu: { node: string; index: number }) => `${gpu.node} GPU ${gpu.index}`;

export function ObjectLink({ target }: { target: Target }) {
  return (
    <Link to={pathOf(target)} onContextMenu={(e) => openContextMenu(e, target)}>
      <bdi>{target.name}</bdi>
    </Link>
  );
}

/** Link to the object of a path; an unknown object is named by its kind and the end of its id. */
export function PathLink({ path }: { path: string }) {
  const nameOf = useNames();
  const place = lastOf(path);
  if (!place) return <span className="bb-quiet">–</span>;
  const name = nameOf(place.kind, place.id) || `${t(kindKey(place.kind))} ${place.id.slice(-8)}`;
  return <ObjectLink target={{ ...place, name }} />;
}
