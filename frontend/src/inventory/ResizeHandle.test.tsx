// @vitest-environment jsdom
import { expect, test } from "vitest";
import type { Allocation, Gpu } from "../api/client";
import { sizeAfter, sizeFor } from "./ResizeHandle";

const GIB = 2 ** 30;
const gpu = { memory_bytes: 10 * GIB } as Gpu;

test("keys move the edge by one and ten percent, between one percent and what is free", () => {
  expect(sizeAfter("ArrowRight", 30, 80)).toBe(31);
  expect(sizeAfter("ArrowLeft", 1, 80)).toBe(1);
  expect(sizeAfter("PageUp", 75, 80)).toBe(80);
  expect(sizeAfter("PageDown", 30, 80)).toBe(20);
  expect(sizeAfter("Home", 30, 80)).toBe(1);
  expect(sizeAfter("End", 30, 80)).toBe(80);
  expect(sizeAfter("a", 30, 80)).toBeNull();
});

test("an allocation that was requested in percent is resized in percent", () => {
  expect(sizeFor({ memory_bytes: 0 } as Allocation, gpu, 45)).toEqual({ percent: 45 });
});

test("an allocation that was requested in bytes keeps its percent of compute", () => {
  const size = sizeFor({ memory_bytes: 2 * GIB } as Allocation, gpu, 33);
  expect(size).toEqual({ memory_bytes: Math.floor(3.3 * 1024) * 2 ** 20 });
});
