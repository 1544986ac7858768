// @vitest-environment jsdom
import { expect, test } from "vitest";
import { ago, gib, gpuCount, humanize, percent, size } from "./format";

test("sizes below 10 GiB have one decimal", () => {
  expect(gib(8.5 * 2 ** 30)).toBe("8.5 GiB");
  expect(gib(80 * 2 ** 30)).toBe("80 GiB");
});

test("a missing percentage is a dash, zero is not", () => {
  expect(percent(null)).toBe("–");
  expect(percent(0)).toBe("0 %");
});

test("codes become words", () => {
  expect(humanize("node.enrol_ssh")).toBe("node enrol ssh");
});

test("sizes take the unit that fits", () => {
  expect([size(0), size(1536), size(3 * 2 ** 30)]).toEqual(["0 B", "1.5 KiB", "3.0 GiB"]);
});

test("the same number of GPUs is the same text everywhere", () => {
  expect([gpuCount(0.35), gpuCount(2)]).toEqual(["0.35", "2"]);
});

test("the age of a time is in its largest unit", () => {
  const now = Date.parse("2026-01-01T12:00:00Z");
  expect(ago("2026-01-01T11:58:00Z", now)).toBe("2 min. ago");
  expect(ago(null, now)).toBe("never");
});
