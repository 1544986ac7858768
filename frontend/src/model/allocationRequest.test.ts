// @vitest-environment jsdom
import { expect, test } from "vitest";
import { INITIAL, commandLine, curlLine, requestBody } from "./allocationRequest";

const GIB = 2 ** 30;

test("the command has the options that differ from their defaults", () => {
  expect(commandLine({ ...INITIAL, name: "my run", count: 2, percent: 30, hours: 4 })).toBe(
    "busbar allocation create --name 'my run' -n 2 -p 30 --lifetime 4h",
  );
});

test("conditions become options and fields of the request", () => {
  const wanted = { ...INITIAL, memoryGib: "8", labels: "site=berlin\n", sameNode: true };
  expect(commandLine(wanted)).toContain("--memory 8GiB --label site=berlin --same-node");
  expect(requestBody(wanted)).toMatchObject({
    memory_bytes: 8 * GIB,
    selector: { site: "berlin" },
    same_node: true,
  });
});

test("a size below 0 is sent, and not taken as one in proportion", () => {
  const wanted = { ...INITIAL, memoryGib: "-1" };
  expect(requestBody(wanted)).toMatchObject({ memory_bytes: -GIB });
  expect(commandLine(wanted)).toContain("--memory -1GiB");
  expect(requestBody({ ...INITIAL, memoryGib: "0" })).not.toHaveProperty("memory_bytes");
});

test("the compute mode is an option and a field of the request, and none by default", () => {
  const capped = { ...INITIAL, mode: "capped" as const };
  expect(commandLine(capped)).toContain("-p 25 --mode capped");
  expect(requestBody(capped)).toMatchObject({ compute_mode: "capped", percent: 25 });
  expect(requestBody(INITIAL)).not.toHaveProperty("compute_mode");
});

test("a request for whole GPUs has neither a share nor a size", () => {
  const whole = { ...INITIAL, mode: "exclusive" as const, count: 2, memoryGib: "8" };
  expect(commandLine(whole)).toBe("busbar allocation create -n 2 --exclusive --lifetime 8h");
  const request = requestBody(whole);
  expect(request).toMatchObject({ compute_mode: "exclusive", gpu_count: 2 });
  expect(request).not.toHaveProperty("percent");
  expect(request).not.toHaveProperty("memory_bytes");
});

test("an allocation of the console is kept by its lifetime, not by its page", () => {
  expect(requestBody(INITIAL)).toMatchObject({ hold: "lifetime", lifetime_seconds: 28_800 });
});

test("a quote in a name cannot end the argument of curl", () => {
  expect(curlLine({ ...INITIAL, name: "a'b" }, "https://x")).toContain(`"a'\\''b"`);
});
