import { expect, test } from "vitest";
import { gib, humanize, percent } from "./format";

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
