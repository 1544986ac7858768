// @vitest-environment jsdom
import { cleanup, render, screen } from "@testing-library/react";
import { afterEach, expect, test } from "vitest";
import { Suspended } from "./Suspended";

afterEach(cleanup);
const GIB = 2 ** 30;
const none = { released_bytes: 0, reason: "", requested_at: null };

test("a suspended allocation shows the memory that it has released", () => {
  render(<Suspended suspension={{ ...none, state: "suspended", released_bytes: 3 * GIB }} />);
  expect(screen.getByText(/Suspended/)).toBeTruthy();
  expect(screen.getByText(/3.0 GiB of GPU memory are in host memory/)).toBeTruthy();
});

test("a failure shows its reason", () => {
  render(<Suspended suspension={{ ...none, state: "failed", reason: "train: a capture" }} />);
  expect(screen.getByText(/The last suspension failed/)).toBeTruthy();
  expect(screen.getByText("train: a capture")).toBeTruthy();
  expect(screen.queryByText(/in host memory/)).toBeNull();
});
