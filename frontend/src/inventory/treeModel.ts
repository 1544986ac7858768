// Rows of the inventory tree for its three views. Pure functions of the cached lists.
import type { Alarm, Allocation, Gpu, Node, Partition, Pool } from "../api/client";
import { allocationsById, gpusByNode, grouping, partitionsByGpu } from "../api/indexes";
import type { Target } from "../model/kinds";
import { allocationName, hasEnded } from "../model/allocationNames";
import { t } from "../text/text";
import { type NodeHealth, allocated, healthOf, healthText } from "./capacity";
import { gpuTrouble } from "./gpuState";

export type TreeView = "nodes" | "pools" | "projects";
export interface TreeItem {
  id: string;
  icon: "site" | "node" | "gpu" | "partition" | "pool" | "project" | "allocation";
  label: string;
  badge: string;
  /** Health of the object or the worst below it, in words. */
  trouble: string;
  health?: NodeHealth;
  target?: Target;
  /** Open alarms of the object and of all that lies below it. */
  alarms?: Alarm[];
  children: TreeItem[];
}
export interface Inventory {
  nodes: Node[];
  gpus: Gpu[];
  pools: Pool[];
  partitions: Partition[];
  allocations: Allocation[];
  alarms?: Alarm[];
}

const gpusByPool = grouping<Gpu>((g) => g.pool ?? "");
const byProject = grouping<Allocation>((a) => a.project);
const byObject = grouping<Alarm>((a) => a.object_id);
const byNode = grouping<Alarm>((a) => a.node_id ?? "");
const byPool = grouping<Alarm>((a) => a.pool_id ?? "");
const byOwner = grouping<Alarm>((a) => a.project_id ?? "");
const NO_ALARMS: Alarm[] = [];
const alarmsOf = (data: Inventory, group: typeof byObject, id: string) =>
  group(data.alarms ?? NO_ALARMS).get(id) ?? NO_ALARMS;
const byName = <R extends { name: string }>(rows: R[]) =>
  [...rows].sort((a, b) => a.name.localeCompare(b.name, undefined, { numeric: true }));

function partitionItem(p: Partition, allocations: Map<string, Allocation>): TreeItem {
  const allocation = allocations.get(p.allocation_id);
  const name = allocation ? allocationName(allocation) : t("common.anotherProject");
  return {
    id: `partition:${p.id}`,
    icon: "partition",
    label: name,
    badge: `${p.compute_percent} %`,
    trouble: "",
    children: [],
    ...(allocation ? { target: { kind: "allocations" as const, id: allocation.id, name } } : {}),
  };
}

function gpuItem(gpu: Gpu, label: string, data: Inventory): TreeItem {
  const own = partitionsByGpu(data.partitions).get(gpu.id) ?? [];
  const names = allocationsById(data.allocations);
  const trouble = gpuTrouble(gpu);
  return {
    id: `gpu:${gpu.id}`,
    icon: "gpu",
    label,
    badge: `${allocated(own).percent} %`,
    trouble,
    ...(trouble ? { health: gpu.present === false ? "unreachable" : "cordoned" } : {}),
    alarms: alarmsOf(data, byObject, gpu.id),
    target: { kind: "gpus", id: gpu.id, name: `${gpu.node} GPU ${gpu.index}` },
    children: own.map((p) => partitionItem(p, names)),
  };
}

function nodeItem(node: Node, data: Inventory): TreeItem {
  const own = [...(gpusByNode(data.gpus).get(node.id) ?? [])].sort((a, b) => a.index - b.index);
  const health = healthOf(node);
  return {
    id: `node:${node.id}`,
    icon: "node",
    label: node.name,
    badge: String(own.length),
    trouble: health === "ready" ? "" : healthText(node),
    health,
    alarms: alarmsOf(data, byNode, node.id),
    target: { kind: "nodes", id: node.id, name: node.name },
    children: own.map((g) => gpuItem(g, `GPU ${g.index}`, data)),
  };
}

/** Return the nodes of GPUs that the user may view without the node: they open no page. */
function pathItems(data: Inventory): TreeItem[] {
  const known = new Set(data.nodes.map((node) => node.id));
  const hidden = [...gpusByNode(data.gpus)].filter(([id]) => !known.has(id));
  const nodes = byName(hidden.map(([id, [gpu]]) => ({ id, name: gpu?.node ?? "" }) as Node));
  return nodes.map((node) => {
    const { target: _, health: __, ...item } = nodeItem(node, data);
    return { ...item, trouble: "" };
  });
}

function nodesView(data: Inventory): TreeItem[] {
  const items = byName(data.nodes).map((node) => ({ node, item: nodeItem(node, data) }));
  const paths = pathItems(data);
  if (!data.nodes.some((n) => n.site)) return [...items.map((x) => x.item), ...paths];
  const sites = [...new Set(data.nodes.map((n) => n.site ?? ""))].sort();
  const ofSites = sites.map((site): TreeItem => {
    const children = items.filter((x) => (x.node.site ?? "") === site).map((x) => x.item);
    const bad = children.filter((c) => c.trouble).length;
    return {
      id: `site:${site}`,
      icon: "site",
      label: site || t("tree.noSite"),
      badge: String(children.length),
      alarms: children.flatMap((c) => c.alarms ?? []),
      trouble: bad ? t("tree.troubled", { count: bad }) : "",
      ...(bad ? { health: "unreachable" as const } : {}),
      children,
    };
  });
  return [...ofSites, ...paths];
}

function poolsView(data: Inventory): TreeItem[] {
  const groups = gpusByPool(data.gpus);
  return byName(data.pools).map((pool) => {
    const own = [...(groups.get(pool.name) ?? [])].sort(
      (a, b) => a.node.localeCompare(b.node) || a.index - b.index,
    );
    return {
      id: `pool:${pool.id}`,
      icon: "pool",
      label: pool.name,
      badge: String(own.length),
      trouble: "",
      alarms: alarmsOf(data, byPool, pool.id),
      target: { kind: "pools", id: pool.id, name: pool.name },
      children: own.map((g) => gpuItem(g, `${g.node} GPU ${g.index}`, data)),
    };
  });
}

function projectsView(data: Inventory, projects: { id: string; name: string }[]): TreeItem[] {
  const groups = byProject(data.allocations);
  return byName(projects).map((project) => {
    const own = (groups.get(project.name) ?? []).filter((a) => !hasEnded(a));
    return {
      id: `project:${project.id}`,
      icon: "project",
      label: project.name,
      badge: String(own.length),
      trouble: "",
      alarms: alarmsOf(data, byOwner, project.id),
      target: { kind: "projects", id: project.id, name: project.name },
      children: own.map((a) => ({
        id: `allocation:${a.id}`,
        icon: "allocation" as const,
        label: allocationName(a),
        badge: `${a.gpu_count} × ${a.percent} %`,
        trouble: "",
        alarms: alarmsOf(data, byObject, a.id),
        target: { kind: "allocations" as const, id: a.id, name: allocationName(a) },
        children: [],
      })),
    };
  });
}

export function treeItems(
  view: TreeView,
  data: Inventory,
  projects: { id: string; name: string }[],
): TreeItem[] {
  if (view === "pools") return poolsView(data);
  return view === "projects" ? projectsView(data, projects) : nodesView(data);
}

/** Return the matching items with their ancestors and descendants. */
export function filterItems(items: TreeItem[], filter: string): TreeItem[] {
  const wanted = filter.trim().toLowerCase();
  if (!wanted) return items;
  const visit = (item: TreeItem): TreeItem[] => {
    if (item.label.toLowerCase().includes(wanted)) return [item];
    const children = item.children.flatMap(visit);
    return children.length > 0 ? [{ ...item, children }] : [];
  };
  return items.flatMap(visit);
}

export interface TreeRow {
  item: TreeItem;
  depth: number;
  expanded: boolean;
  position: number;
  siblings: number;
  parent: number;
}

/** Return the rows that are visible, given which items are expanded. */
export function visibleRows(
  items: TreeItem[],
  isExpanded: (item: TreeItem, depth: number) => boolean,
): TreeRow[] {
  const rows: TreeRow[] = [];
  const visit = (list: TreeItem[], depth: number, parent: number) => {
    list.forEach((item, i) => {
      const expanded = item.children.length > 0 && isExpanded(item, depth);
      const at = rows.push({
        item,
        depth,
        expanded,
        position: i + 1,
        siblings: list.length,
        parent,
      });
      if (expanded) visit(item.children, depth + 1, at - 1);
    });
  };
  visit(items, 0, -1);
  return rows;
}
