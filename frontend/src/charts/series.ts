// Series of charts: ranges, history of the appliance and live samples, gaps as gaps.
import { useQuery } from "@tanstack/react-query";
import { type Schema, api, unwrap } from "../api/client";
import type { Sample } from "../api/samples";

export const RANGES = { "5m": 300, "1h": 3_600, "24h": 86_400, "7d": 604_800, "30d": 2_592_000 };
export type Range = keyof typeof RANGES;
export type ChartKind = "gpus" | "partitions" | "sessions" | "projects";
export type Series = [times: number[], values: (number | null)[]];
type History = Schema<"History">;

/** Longest distance of neighbours: a longer one is a gap. */
export const gapSeconds = (resolution: number) => Math.max(5, 2.5 * resolution);

const PATHS = {
  gpus: "/api/v1/gpus/{object_id}/metrics",
  partitions: "/api/v1/partitions/{object_id}/metrics",
  sessions: "/api/v1/sessions/{object_id}/metrics",
  projects: "/api/v1/projects/{object_id}/metrics",
} as const;

/** History of an object over a range; it is read again as new steps become complete. */
export function useHistory(kind: ChartKind, id: string, range: Range, enabled = true) {
  const seconds = RANGES[range];
  return useQuery({
    queryKey: ["detail", "metrics", kind, id, range],
    queryFn: () =>
      api
        .GET(PATHS[kind] as (typeof PATHS)["gpus"], {
          params: {
            path: { object_id: id },
            query: { since: new Date(Date.now() - seconds * 1000).toISOString() },
          },
        })
        .then(unwrap),
    enabled,
    refetchInterval: Math.max(10_000, (seconds * 1000) / 300),
    placeholderData: (before) => before,
  });
}

/** Insert a null where points are missing, so that the line is interrupted. */
export function withGaps(points: [number, number | null][], gap: number): Series {
  const times: number[] = [];
  const values: (number | null)[] = [];
  for (const [time, value] of points) {
    const last = times.at(-1);
    if (last !== undefined && time - last > gap) {
      times.push(last + 0.001);
      values.push(null);
    }
    times.push(time);
    values.push(value);
  }
  return [times, values];
}

interface Reading {
  scale: number;
  /** The metric counts up; its change per second is shown. */
  isCounter?: boolean;
}

/** Return the series of a metric. A point of the history is [time, mean, minimum, maximum]. */
export function historySeries(
  history: History | undefined,
  metric: string,
  { scale, isCounter = false }: Reading,
): Series {
  const points = history?.items.find((i) => i.metric === metric)?.points ?? [];
  const found: [number, number][] = [];
  let before: number[] | undefined;
  for (const p of points) {
    const [time = 0, value = 0] = p;
    if (!isCounter) found.push([time, value / scale]);
    else if (before) {
      const rate = (value - (before[1] ?? 0)) / (time - (before[0] ?? 0));
      found.push([time, Math.max(0, rate) / scale]);
    }
    before = p;
  }
  return withGaps(found, gapSeconds(history?.resolution_seconds ?? 1));
}

export function liveSeries(samples: Sample[], reading: 1 | 2 | 3 | 4, scale: number): Series {
  return withGaps(
    samples.map((s): [number, number | null] => {
      const value = s[reading];
      return [s[0], value == null ? null : value / scale];
    }),
    gapSeconds(1),
  );
}
