// Layout and colours of the heat map. Nodes follow each other; a row is wrapped between nodes.
import type { Gpu } from "../api/client";

export const METRICS = ["utilisation", "memory", "temperature", "power", "allocated"] as const;
export type HeatMetric = (typeof METRICS)[number];
export const CELL = 22;
const NODE_GAP = 8;
export const LABEL_HEIGHT = 16;
const ROW_GAP = 10;

export interface Cell {
  gpu: Gpu;
  x: number;
  y: number;
}
export interface NodeLabel {
  text: string;
  x: number;
  y: number;
  width: number;
}
export interface Layout {
  cells: Cell[];
  labels: NodeLabel[];
  height: number;
}

/** Place the GPUs of each node side by side, in the order of the list. */
export function layout(groups: { name: string; gpus: Gpu[] }[], width: number): Layout {
  const cells: Cell[] = [];
  const labels: NodeLabel[] = [];
  const perRow = Math.max(1, Math.floor(width / CELL));
  let [x, y, tall] = [0, 0, 0];
  for (const { name, gpus } of groups) {
    const columns = Math.min(perRow, Math.max(2, Math.min(gpus.length, 8)));
    const nodeWidth = columns * CELL;
    if (x > 0 && x + nodeWidth > width) [x, y, tall] = [0, y + tall + ROW_GAP, 0];
    labels.push({ text: name, x, y, width: nodeWidth });
    gpus.forEach((gpu, i) => {
      cells.push({
        gpu,
        x: x + (i % columns) * CELL,
        y: y + LABEL_HEIGHT + Math.floor(i / columns) * CELL,
      });
    });
    tall = Math.max(tall, LABEL_HEIGHT + Math.ceil(gpus.length / columns) * CELL);
    x += nodeWidth + NODE_GAP;
  }
  return { cells, labels, height: y + tall };
}

/** Colour-blind safe scale from dark blue over green to yellow (viridis). */
const STOPS: [number, number, number][] = [
  [68, 1, 84],
  [59, 82, 139],
  [33, 145, 140],
  [94, 201, 98],
  [253, 231, 37],
];
export function heatColour(share: number): string {
  const at = Math.max(0, Math.min(1, share)) * (STOPS.length - 1);
  const i = Math.min(STOPS.length - 2, Math.floor(at));
  const [low, high] = [STOPS[i], STOPS[i + 1]];
  const mixed = [0, 1, 2].map((c) =>
    Math.round((low?.[c] ?? 0) + (at - i) * ((high?.[c] ?? 0) - (low?.[c] ?? 0))),
  );
  return `rgb(${mixed.join(" ")})`;
}

/** Return the next cell in a direction, by position rather than by order. */
export function neighbour(cells: Cell[], at: number, key: string): number {
  const here = cells[at];
  if (!here) return 0;
  if (key === "ArrowRight") return Math.min(cells.length - 1, at + 1);
  if (key === "ArrowLeft") return Math.max(0, at - 1);
  const sign = key === "ArrowDown" ? 1 : -1;
  let best = at;
  let distance = Number.POSITIVE_INFINITY;
  cells.forEach((c, i) => {
    const dy = sign * (c.y - here.y);
    if (dy <= 0) return;
    const d = dy * 4 + Math.abs(c.x - here.x);
    if (d < distance) [best, distance] = [i, d];
  });
  return best;
}
