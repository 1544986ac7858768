// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Schema } from "../api/client";
import { historySeries, withGaps } from "./series";

const history = (points: number[][]) =>
  ({ resolution_seconds: 10, items: [{ metric: "m", points }] }) as unknown as Schema<"History">;

test("missing points interrupt the line", () => {
  expect(
    withGaps(
      [
        [0, 1],
        [1, 2],
        [100, 3],
      ],
      5,
    ),
  ).toEqual([
    [0, 1, 1.001, 100],
    [1, 2, null, 3],
  ]);
});

test("a point shows its mean in the unit of the chart", () => {
  expect(historySeries(history([[0, 200, 100, 300]]), "m", { scale: 100 })).toEqual([[0], [2]]);
});

test("a counter is shown as its rate, and a restart is no negative rate", () => {
  const points = [
    [0, 100],
    [10, 200],
    [20, 0],
  ];
  const [times, values] = historySeries(history(points), "m", { scale: 1, isCounter: true });
  expect([times, values]).toEqual([
    [10, 20],
    [10, 0],
  ]);
});
