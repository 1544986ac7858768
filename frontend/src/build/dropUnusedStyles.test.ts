import { expect, test } from "vitest";
import { withoutUnused } from "./dropUnusedStyles";

test("rules of unused responsive variants and themes are dropped", () => {
  const css = ".a.pf-m-hidden-on-md{x:1}.b{y:2}:root:where(.pf-v6-theme-high-contrast){--z:3}";
  expect(withoutUnused(css)).toBe(".b{y:2}");
});

test("a rule keeps its used selectors", () => {
  expect(withoutUnused(".a,.b:where(.pf-v6-m-dir-rtl, .c){x:1}")).toBe(".a{x:1}");
});

test("used variants, media queries and key frames stay", () => {
  const css = "@media (min-width: 768px){.pf-m-all-6-col-on-md{x:1}}@keyframes k{from{x:0}to{x:1}}";
  expect(withoutUnused(css)).toBe(css);
});
