// Build step that removes styles which the console cannot use.
import type { Plugin } from "vite";

/** Responsive variants that the source uses; all others are dropped. */
const USED_VARIANTS = new Set(["pf-m-all-6-col-on-md", "pf-m-2-col-on-xl"]);
const VARIANT = /\.(pf-[mu]-[\w-]+?-on-(?:sm|md|lg|xl|2xl))(?![\w-])/g;
const UNUSED =
  /pf-v6-m-dir-rtl|\[dir=rtl\]|pf-m-grid-(?:lg|xl|2xl)|pf-m-tree-view|glass|felt|high-contrast|redhat/;

const isUsed = (selector: string): boolean =>
  !UNUSED.test(selector) &&
  [...selector.matchAll(VARIANT)].every(([, name]) => USED_VARIANTS.has(name ?? ""));

/** Split a selector list at its outer commas. */
function selectorsOf(list: string): string[] {
  const found: string[] = [];
  let [depth, start] = [0, 0];
  for (let i = 0; i < list.length; i++) {
    if ("([".includes(list[i] ?? "")) depth++;
    else if (")]".includes(list[i] ?? "")) depth--;
    else if (list[i] === "," && depth === 0) {
      found.push(list.slice(start, i));
      start = i + 1;
    }
  }
  return [...found, list.slice(start)];
}

/** Return the style sheet without rules whose selectors are all unused. */
export function withoutUnused(css: string): string {
  const rules = css.replaceAll(/([^{}]+)\{([^{}]*)\}/g, (rule, selector: string, body: string) => {
    if (selector.trimStart().startsWith("@") || /^\s*(?:from|to|[\d.]+%)/.test(selector))
      return rule;
    const kept = selectorsOf(selector).filter(isUsed);
    return kept.length > 0 ? `${kept.join(",")}{${body}}` : "";
  });
  return rules.replaceAll(/@media[^{}]+\{\s*\}/g, "");
}

export const dropUnusedStyles = (): Plugin => ({
  name: "busbar-drop-unused-styles",
  apply: "build",
  generateBundle(_options, bundle) {
    for (const file of Object.values(bundle))
      if (file.type === "asset" && file.fileName.endsWith(".css"))
        file.source = withoutUnused(String(file.source));
  },
});
