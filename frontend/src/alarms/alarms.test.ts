// @vitest-environment jsdom
import { expect, test } from "vitest";
import { requestOf, valuesOf } from "../actions/definitionForm";
import type { Alarm, AlarmDefinition, Gpu, Node } from "../api/client";
import { treeItems } from "../inventory/treeModel";
import { alarmsOf, countText, worstOf } from "./alarms";

const alarm = (id: string, more: Partial<Alarm> = {}) =>
  ({ id, severity: "warning", object_id: "x", node_id: null, pool_id: null, ...more }) as Alarm;
const ofGpu = alarm("1", { object_id: "g", node_id: "n", pool_id: "p", severity: "critical" });
const ofNode = alarm("2", { object_id: "n", node_id: "n" });

test("an object has its alarms and those below it", () => {
  const ids = (kind: "nodes" | "gpus" | "pools" | "users", id: string) =>
    alarmsOf([ofGpu, ofNode], { kind, id }).map((a) => a.id);
  expect(ids("nodes", "n")).toEqual(["1", "2"]);
  expect(ids("gpus", "g")).toEqual(["1"]);
  expect(ids("pools", "p")).toEqual(["1"]);
  expect(ids("users", "n")).toEqual([]);
});

test("the worst severity decides", () => {
  expect(worstOf([ofNode, ofGpu])).toBe("critical");
  expect(worstOf([])).toBeUndefined();
  expect(countText([ofNode])).toBe("1 alarm");
  expect(countText([ofNode, ofGpu])).toBe("2 alarms, some critical");
});

test("badges roll up from GPU to node and site", () => {
  const nodes = [{ id: "n", name: "n", state: "ready", reachable: true, site: "s" } as Node];
  const gpus = [{ id: "g", node_id: "n", node: "n", index: 0, present: true } as Gpu];
  const data = { nodes, gpus, pools: [], partitions: [], allocations: [] };
  const [site] = treeItems("nodes", { ...data, alarms: [ofGpu, ofNode] }, []);
  const [node] = site?.children ?? [];
  expect(site?.alarms?.map((a) => a.id)).toEqual(["1", "2"]);
  expect(node?.alarms?.map((a) => a.id)).toEqual(["1", "2"]);
  expect(node?.children[0]?.alarms?.map((a) => a.id)).toEqual(["1"]);
  expect(treeItems("nodes", data, [])[0]?.alarms).toEqual([]);
});

test("a definition passes through its form unchanged", () => {
  const row = {
    name: "hot",
    notes: "",
    severity: "critical",
    object_kind: "gpu",
    condition: "metric",
    states: [],
    metric: "temperature_celsius",
    comparison: "above",
    threshold: 85,
    clear_threshold: null,
    event_kind: "",
    xid_class: "",
    window_seconds: 0,
    raise_after_seconds: 300,
    clear_after_seconds: 60,
    site: null,
    node: null,
    gpu: "n1/0",
    pool: null,
    mail_users: ["alice", "bob"],
    webhook_url: "",
    script: "",
    enters_maintenance: true,
  };
  expect(requestOf(valuesOf(row as unknown as AlarmDefinition))).toEqual(row);
});
