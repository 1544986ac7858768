import { expect, test } from "vitest";
import { limitRows } from "./rows";

const ended = (n: number) =>
  Array.from({ length: n }, (_, i) => ({ id: `${i}`, state: "released" }));

test("the oldest ended allocations are dropped above the maximum", () => {
  expect(limitRows("allocation", ended(600))).toHaveLength(500);
});

test("an active allocation is kept however old it is", () => {
  const rows = limitRows("allocation", [...ended(600), { id: "old", state: "active" }]);
  expect(rows.at(-1)?.id).toBe("old");
});

test("kinds without a maximum keep all rows", () => {
  expect(limitRows("gpu", ended(5000))).toHaveLength(5000);
});
