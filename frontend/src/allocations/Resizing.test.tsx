// @vitest-environment jsdom
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import type { Allocation } from "../api/client";
import { computeText } from "../model/computeShare";
import { requestText } from "../model/allocationNames";
import { Resizing } from "./Resizing";

afterEach(cleanup);
const GIB = 2 ** 30;
const granted_size = { percent: 25, memory_bytes: 0, compute_mode: "shared" } as const;
const fields = { requested_at: null, granted_size };

test("an allocation that shrinks shows what it has returned", () => {
  const amounts = { returned_bytes: 1.2 * GIB, over_bytes: 0.8 * GIB };
  render(<Resizing resize={{ state: "shrinking", reason: "", ...fields, ...amounts }} />);
  expect(screen.getByText(/Shrinking, 1.2 GiB of 2.0 GiB returned/)).toBeTruthy();
});

test("a resize that the nodes apply shows what it waits for", () => {
  const amounts = { returned_bytes: 0, over_bytes: 0 };
  const reason = "The nodes have not applied the change yet.";
  render(<Resizing resize={{ state: "applying", reason, ...fields, ...amounts }} />);
  expect(screen.getByText(reason)).toBeTruthy();
});

test("a mode that waits is in the request, and the mode in force in the share", () => {
  const a = { percent: 100, compute_mode: "exclusive", granted_compute_mode: "capped" };
  expect(requestText(a as Allocation)).toContain("100 %, exclusive");
  expect(computeText(a as Allocation)).toContain("capped");
  const same = { ...a, granted_compute_mode: "exclusive" };
  expect(requestText(same as Allocation)).not.toContain("exclusive");
});
