// @vitest-environment jsdom
import { expect, test } from "vitest";
import { enforcementText } from "./computeShare";

test("texts of nodes are shown by their code, and unknown ones as they are", () => {
  expect(enforcementText("enforced")).toBe("enforced");
  expect(enforcementText("enforced with a larger error: work needed more than 90 ms")).toContain(
    "90 ms",
  );
  expect(enforcementText("time slicing: a turn did not end in 500 ms")).toContain("time slices");
  expect(enforcementText("something new")).toBe("something new");
  expect(enforcementText(null)).toBe("no running program");
});
