// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Gpu, Node } from "../api/client";
import { type Inventory, filterItems, treeItems, visibleRows } from "./treeModel";

const node = (id: string, more: Partial<Node> = {}) =>
  ({ id, name: id, state: "ready", reachable: true, ...more }) as Node;
const gpu = (id: string, node_id: string) =>
  ({ id, node_id, node: node_id, index: 0, pool: "default", present: true }) as Gpu;
const inventory = (nodes: Node[], gpus: Gpu[]): Inventory => ({
  nodes,
  gpus,
  pools: [],
  partitions: [],
  allocations: [],
});
const data = inventory([node("b", { reachable: false }), node("a")], [gpu("g1", "a")]);

test("nodes are sorted and an unreachable one is called so", () => {
  const items = treeItems("nodes", data, []);
  expect(items.map((i) => [i.label, i.trouble])).toEqual([
    ["a", ""],
    ["b", "unreachable"],
  ]);
});

test("a GPU that another node has as well is called held", () => {
  const twin = { ...gpu("g2", "a"), duplicate_of: "g1", duplicate_of_node: "b" };
  const [item] = treeItems("nodes", inventory([node("a")], [twin]), []);
  expect(item?.children.map((c) => c.trouble)).toEqual(["held"]);
});

test("sites appear once a node has one, and count what is in trouble", () => {
  const sited = inventory([node("a", { site: "x", reachable: false }), node("b")], []);
  const items = treeItems("nodes", sited, []);
  expect(items.map((i) => [i.label, i.trouble])).toEqual([
    ["No site", ""],
    ["x", "1 in trouble"],
  ]);
});

test("a GPU of a node that the user may not view stands below the name of its node", () => {
  for (const nodes of [[], [node("a")], [node("a", { site: "x" })]]) {
    const items = treeItems("nodes", inventory(nodes, [gpu("g1", "a"), gpu("g2", "hidden")]), []);
    const item = items.find((i) => i.label === "hidden");
    expect(item).toMatchObject({ icon: "node", badge: "1", trouble: "" });
    expect(item?.children.map((c) => c.target?.id)).toEqual(["g2"]);
    expect(item?.target).toBeUndefined();
  }
});

test("a match keeps its ancestors", () => {
  const found = filterItems(treeItems("nodes", data, []), "gpu 0");
  expect(found.map((i) => i.label)).toEqual(["a"]);
  expect(filterItems(treeItems("nodes", data, []), "nothing")).toEqual([]);
});

test("only rows below expanded items are visible", () => {
  const items = treeItems("nodes", data, []);
  expect(visibleRows(items, () => false).length).toBe(2);
  const rows = visibleRows(items, () => true);
  expect(rows.map((r) => [r.item.label, r.depth, r.parent])).toEqual([
    ["a", 0, -1],
    ["GPU 0", 1, 0],
    ["b", 0, -1],
  ]);
});
