import { expect, test } from "vitest";
import { bestFirst } from "./ranking";

const THINGS = [
  { id: "sessions/01a1-7001", label: "gpu_demo", haystack: "gpu_demo" },
  { id: "gpus/01a2-7002", label: "node-1 GPU 0", haystack: "node-1 gpu 0" },
  { id: "gpus/01a3-7003", label: "node-1 GPU 1", haystack: "node-1 gpu 1" },
];
const found = (...words: string[]) => bestFirst(words, THINGS).map((x) => x.label);

test("a name that contains the whole query comes before one with its words", () => {
  expect(found("gpu", "1")).toEqual(["node-1 GPU 1", "node-1 GPU 0"]);
});

test("a short word does not match the ids of objects, a long one does", () => {
  expect(found("7001")).toEqual([]);
  expect(found("01a1-7001")).toEqual(["gpu_demo"]);
});
