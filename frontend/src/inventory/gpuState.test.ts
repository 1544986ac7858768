// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Gpu } from "../api/client";
import { contextText } from "./gpuState";

test("the memory of a context is shown as far as it is known", () => {
  expect(contextText({ context_bytes: 415 * 2 ** 20 } as Gpu)).toBe("415 MiB");
  expect(contextText({ context_bytes: 0 } as Gpu)).toBe("–");
});
