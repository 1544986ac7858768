// Isolation layers of a session in words: a gap is named.
import type { Session } from "../api/client";
import { t } from "../text/text";
import { humanize } from "./format";

export const layersOf = (s: Session): [name: string, how: string][] =>
  Object.entries((s.isolation ?? {}) as Record<string, string>);

export function isolationText(s: Session): string {
  const layers = layersOf(s);
  if (layers.length === 0) return "–";
  const gaps = layers.filter(([, how]) => how !== "enforced").map(([name]) => humanize(name));
  return gaps.length === 0
    ? t("session.allEnforced", { count: layers.length })
    : t("session.notEnforced", { names: gaps.join(", ") });
}
