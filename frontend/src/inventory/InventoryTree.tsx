// Inventory tree: nodes, GPUs and partitions with their states. The URL holds the selection.
import {
  EmptyState,
  EmptyStateBody,
  SearchInput,
  Skeleton,
  TreeView,
  type TreeViewDataItem,
} from "@patternfly/react-core";
import CubeIcon from "@patternfly/react-icons/dist/esm/icons/cube-icon";
import MicrochipIcon from "@patternfly/react-icons/dist/esm/icons/microchip-icon";
import ServerIcon from "@patternfly/react-icons/dist/esm/icons/server-icon";
import { useLocation, useNavigate } from "@tanstack/react-router";
import { useMemo, useState } from "react";
import type { Allocation, Gpu, Node, Partition } from "../api/client";
import { useLoaded, useRows } from "../api/queries";
import { allocated, byIndex, healthOf, partitionsOf } from "./capacity";

function partitionItem(p: Partition, names: Map<string, string>): TreeViewDataItem {
  return {
    id: `partition:${p.id}:${p.gpu_id}`,
    name: names.get(p.allocation_id) ?? "another project",
    icon: <CubeIcon />,
    customBadgeContent: `${p.compute_percent} %`,
  };
}

function gpuItem(gpu: Gpu, partitions: Partition[], names: Map<string, string>): TreeViewDataItem {
  const own = partitionsOf(gpu, partitions);
  return {
    id: `gpu:${gpu.id}`,
    name: `GPU ${gpu.index}`,
    icon: (
      <MicrochipIcon
        className={gpu.present === false ? "bb-health bb-health--unreachable" : undefined}
      />
    ),
    customBadgeContent: `${allocated(own).percent} %`,
    defaultExpanded: true,
    ...(own.length > 0 ? { children: own.map((p) => partitionItem(p, names)) } : {}),
  };
}

function nodeItem(
  node: Node,
  gpus: Gpu[],
  partitions: Partition[],
  names: Map<string, string>,
): TreeViewDataItem {
  const own = gpus.filter((g) => g.node_id === node.id).sort(byIndex);
  return {
    id: `node:${node.id}`,
    name: node.name,
    icon: <ServerIcon className={`bb-health bb-health--${healthOf(node)}`} />,
    customBadgeContent: own.length,
    defaultExpanded: true,
    ...(own.length > 0 ? { children: own.map((g) => gpuItem(g, partitions, names)) } : {}),
  };
}

const nameOf = (a: Allocation) => a.name || a.id.slice(-8);
const matches = (text: string, filter: string) => text.toLowerCase().includes(filter.toLowerCase());

/** Return the matching items with their ancestors and descendants. */
function filtered(items: TreeViewDataItem[], filter: string): TreeViewDataItem[] {
  if (!filter) return items;
  return items.flatMap((item) => {
    if (matches(String(item.name), filter)) return [item];
    const children = filtered(item.children ?? [], filter);
    return children.length > 0 ? [{ ...item, children }] : [];
  });
}

export function InventoryTree() {
  const [nodes, gpus, partitions, allocations] = [
    useRows("node"),
    useRows("gpu"),
    useRows("partition"),
    useRows("allocation"),
  ];
  const loaded = useLoaded("node");
  const [filter, setFilter] = useState("");
  const navigate = useNavigate();
  const { pathname } = useLocation();
  const items = useMemo(() => {
    const names = new Map(allocations.map((a) => [a.id, nameOf(a)]));
    const sorted = [...nodes].sort((a, b) => a.name.localeCompare(b.name));
    return sorted.map((n) => nodeItem(n, gpus, partitions, names));
  }, [nodes, gpus, partitions, allocations]);
  const visible = filtered(items, filter);
  const active = visible
    .flatMap((n) => [n, ...(n.children ?? [])])
    .filter((i) => pathname === `/${i.id?.replace(":", "s/")}`);

  const select = (item: TreeViewDataItem) => {
    const [kind, id, gpuId] = (item.id ?? "").split(":");
    if (kind === "node") navigate({ to: "/nodes/$nodeId", params: { nodeId: id ?? "" } });
    else navigate({ to: "/gpus/$gpuId", params: { gpuId: gpuId ?? id ?? "" } });
  };

  if (!loaded) return <Skeleton screenreaderText="Loading the inventory" />;
  if (nodes.length === 0)
    return (
      <EmptyState variant="xs" titleText="No nodes yet" headingLevel="h3">
        <EmptyStateBody>
          <code>busbar node add ssh://root@HOST</code>
        </EmptyStateBody>
      </EmptyState>
    );
  return (
    <>
      <SearchInput
        aria-label="Filter the tree"
        placeholder="Filter"
        value={filter}
        onChange={(_, v) => setFilter(v)}
        onClear={() => setFilter("")}
      />
      <TreeView
        aria-label="Nodes, GPUs and partitions"
        key={filter}
        data={visible}
        allExpanded={filter ? true : undefined}
        hasBadges
        hasSelectableNodes
        activeItems={active}
        onSelect={(_, item) => select(item)}
      />
    </>
  );
}
