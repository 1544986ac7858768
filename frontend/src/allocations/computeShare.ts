/* How the share of the compute of a GPU counts, and how it is enforced: codes of the API as texts. */
import type { Allocation, Session } from "../api/client";
import { coded, t } from "../text/text";

/* Beginnings of the texts of the nodes (nodes/messages.py), the longest first. */
const ENFORCEMENTS: [start: string, code: string][] = [
  ["enforced with a larger error", "coarse"],
  ["enforced", "turns"],
  ["not needed", "alone"],
  ["time slicing", "sliced"],
  ["unenforced", "unenforced"],
];

export function enforcementText(reported: string | null | undefined): string {
  if (!reported) return t("compute.noSession");
  const known = ENFORCEMENTS.find(([start]) => reported.startsWith(start));
  return known ? coded("enforcement", known[1], reported) : reported;
}

export const computeText = (of: Allocation | Session): string =>
  t("compute.share", {
    mode: coded("compute_mode", of.compute_mode ?? "shared", of.compute_mode ?? ""),
    how: enforcementText(of.compute_enforcement),
  });
