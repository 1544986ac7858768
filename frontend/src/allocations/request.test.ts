// @vitest-environment jsdom
import { expect, test } from "vitest";
import { INITIAL, commandLine, curlLine, requestBody } from "./request";

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

test("an allocation of the console is kept by its lifetime, not by its page", () => {
  expect(requestBody(INITIAL)).toMatchObject({ hold: "lifetime", lifetime_seconds: 28_800 });
});

test("a quote in a name cannot end the argument of curl", () => {
  expect(curlLine({ ...INITIAL, name: "a'b" }, "https://x")).toContain(`"a'\\''b"`);
});
