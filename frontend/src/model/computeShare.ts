/* How the share of the compute of a GPU counts, and how it is enforced: codes of the API as texts. */
import type { Allocation, Session } from "../api/client";
import { coded, t } from "../text/text";
import { number, signed } from "./format";

/* Beginnings of the texts of the nodes (nodes/messages.py), the longest first. */
const ENFORCEMENTS: [start: string, code: string][] = [
  ["enforced with a larger error", "coarse"],
  ["enforced", "turns"],
  ["not needed", "alone"],
  ["time slicing", "sliced"],
  ["unenforced: by NVML", "bypassed"],
  ["unenforced", "unenforced"],
];

export function enforcementText(reported: string | null | undefined): string {
  if (!reported) return t("compute.noSession");
  const known = ENFORCEMENTS.find(([start]) => reported.startsWith(start));
  return known ? coded("enforcement", known[1], reported) : reported;
}

export function computeText(of: Allocation | Session): string {
  const granted = "granted_compute_mode" in of ? of.granted_compute_mode : of.compute_mode;
  return t("compute.share", {
    mode: modeText(granted),
    how: enforcementText(of.compute_enforcement),
  });
}

export const modeText = (mode: string | undefined): string =>
  coded("compute_mode", mode ?? "shared", mode ?? "");

function mean(values: (number | null)[]): number | null {
  const known = values.filter((value) => value !== null);
  return known.length ? known.reduce((sum, value) => sum + value, 0) / known.length : null;
}

/** Return the allocation with the share of its open sessions, which are newer than its own row. */
export function withSessions(a: Allocation, sessions: Session[]): Allocation {
  const open = sessions.filter((s) => s.state !== "closed");
  if (!open.length) return a;
  return {
    ...a,
    compute_enforcement:
      open
        .map((s) => s.compute_enforcement)
        .sort()
        .at(-1) ?? null,
    compute_received_percent: mean(open.map((s) => s.compute_received_percent ?? null)),
    compute_error_percent: mean(open.map((s) => s.compute_error_percent ?? null)),
    longest_drain_ms: Math.max(...open.map((s) => s.longest_drain_ms ?? 0)),
  };
}

export function receivedText(of: Allocation | Session): string {
  const { compute_received_percent: received, compute_error_percent: error } = of;
  if (received == null) return t("compute.unknown");
  if (error == null) return t("compute.received", { percent: number(received, 2) });
  return t("compute.receivedError", { percent: number(received, 2), points: signed(error, 2) });
}

export const drainText = (of: Allocation | Session): string =>
  of.longest_drain_ms == null ? "–" : `${number(of.longest_drain_ms)} ms`;
