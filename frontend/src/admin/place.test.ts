// @vitest-environment jsdom
import { expect, test } from "vitest";
import { placeText, roleText } from "./place";

test.each([
  [{ site: "oslo" }, "Site oslo"],
  [{ node: "n1" }, "Node n1"],
  [{ gpu: "n1/0" }, "GPU n1/0"],
  [{ pool: "lab" }, "Pool lab"],
  [{ project: "night" }, "Project night"],
  [{ department: "optics" }, "Department optics"],
  [{ project: null, pool: null }, "everywhere"],
])("a role at %o is shown as held there", (binding, shown) => {
  expect(placeText(binding)).toBe(shown);
});

test("a role of a group is shown with the group and its place", () => {
  expect(roleText({ role: "operator", group: "night", pool: "lab" })).toBe(
    "operator, Group night, Pool lab",
  );
});
