// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Allocation, Session } from "../api/client";
import { drainText, enforcementText, receivedText, withSessions } from "./computeShare";

test("texts of nodes are shown by their code, and unknown ones as they are", () => {
  expect(enforcementText("enforced")).toBe("enforced");
  expect(enforcementText("enforced with a larger error: work needed more than 90 ms")).toContain(
    "90 ms",
  );
  expect(enforcementText("time slicing: a turn did not end in 500 ms")).toContain("time slices");
  expect(enforcementText("something new")).toBe("something new");
  expect(enforcementText(null)).toBe("no running program");
});

const allocation = {
  compute_enforcement: "enforced",
  compute_received_percent: null,
  compute_error_percent: null,
  longest_drain_ms: null,
} as unknown as Allocation;
const session = (received: number | null, error: number | null, drain: number, state = "running") =>
  ({
    state,
    compute_enforcement: received === null ? "unenforced: …" : "enforced",
    compute_received_percent: received,
    compute_error_percent: error,
    longest_drain_ms: drain,
  }) as unknown as Session;

test("a received share is shown with its error, and one that is not known says so", () => {
  expect(receivedText(session(24.61, -0.39, 3))).toBe(
    "24.61 % (-0.39 points from the granted share)",
  );
  expect(receivedText(session(25.5, 0.5, 3))).toContain("+0.50 points");
  expect(receivedText(session(25.5, null, 3))).toBe("25.50 %");
  expect(receivedText(allocation)).toContain("unknown");
  expect(drainText(session(1, 1, 12))).toBe("12 ms");
  expect(drainText(allocation)).toBe("–");
});

test("an allocation shows the share of its open sessions", () => {
  const open = [session(20, -5, 3), session(22, -3, 90), session(null, null, 1)];
  expect(withSessions(allocation, [...open, session(99, 99, 99, "closed")])).toMatchObject({
    compute_enforcement: "unenforced: …",
    compute_received_percent: 21,
    compute_error_percent: -4,
    longest_drain_ms: 90,
  });
  expect(withSessions(allocation, [])).toBe(allocation);
});
