// @vitest-environment jsdom
import { expect, test } from "vitest";
import { labelLines, labelsOf } from "./labels";

test("labels whose keys JavaScript knows otherwise are kept", () => {
  const lines = ["__proto__=a", "constructor=b", "0=c", 'a"b=d', "a.b[0]=e=f"].sort();
  const sent = JSON.stringify(labelsOf(lines.join("\n")));
  expect(labelLines(JSON.parse(sent)).split("\n").sort()).toEqual(lines);
});
