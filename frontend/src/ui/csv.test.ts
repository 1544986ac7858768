import { expect, test } from "vitest";
import { csvText } from "./csv";

test("fields with separators are quoted", () => {
  expect(csvText([["a,b", 'c"d', 1]])).toBe('"a,b","c""d",1\r\n');
});

test("a text that a spreadsheet would run is disarmed", () => {
  expect(csvText([["=1+1", -5]])).toBe("'=1+1,-5\r\n");
  for (const text of [" =1+1", "\r=1+1", "\n@x", "\tx"]) expect(csvText([[text]])).toMatch(/^"?'/);
});
