// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Allocation } from "../api/client";
import { maxSessionsText } from "./allocationNames";

test("the number of programs that fit is shown as far as it is known", () => {
  expect(maxSessionsText({ max_sessions: 48 } as Allocation)).toBe("48");
  expect(maxSessionsText({ max_sessions: null } as Allocation)).toBe("–");
});
