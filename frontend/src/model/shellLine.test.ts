import { expect, test } from "vitest";
import { shellLine } from "./shellLine";

test("a command has all its options, quoted where the shell needs it", () => {
  const words = ["busbar", "pool", "create", "big lab"];
  const options = { policy: ["pack", "exclusive"], notes: "it's new", "admit-new-gpus": true };
  expect(shellLine(words, options)).toBe(
    "busbar pool create 'big lab' --policy pack --policy exclusive --notes 'it'\\''s new' --admit-new-gpus",
  );
});

test("an option without a value is left out", () => {
  expect(shellLine(["busbar"], { a: "", b: false, c: undefined, d: [] })).toBe("busbar");
});
