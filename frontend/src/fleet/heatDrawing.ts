// Drawing of the heat map: the GPUs with a reading each.
import type { Gpu } from "../api/client";
import { latestSample } from "../api/samples";
import { number } from "../model/format";
import { t } from "../text/text";
import { CELL, type Cell, type HeatMetric, LABEL_HEIGHT, type NodeLabel, heatColour } from "./heat";

const HOT_CELSIUS = 100;
const POWER_WATTS = 700;

export interface Value {
  share: number | null;
  text: string;
}

export interface Scene {
  cells: Cell[];
  labels: NodeLabel[];
  height: number;
  value: (gpu: Gpu) => Value;
  isBad: (gpu: Gpu) => boolean;
}

export function readingOf(gpu: Gpu, metric: HeatMetric, percent: number): Value {
  if (metric === "allocated") return { share: percent / 100, text: `${percent} %` };
  const stored = gpu.metrics as Record<string, number | undefined>;
  const sample = latestSample(gpu.id);
  const pick = (live: number | null | undefined, name: string) => live ?? stored[name] ?? null;
  const none = { share: null, text: t("fleet.noValue") };
  if (metric === "utilisation") {
    const v = pick(sample?.[1], "utilisation_percent");
    return v === null ? none : { share: v / 100, text: `${number(v)} %` };
  }
  if (metric === "memory") {
    const v = pick(sample?.[2], "memory_used_bytes");
    return v === null
      ? none
      : { share: v / gpu.memory_bytes, text: `${number((100 * v) / gpu.memory_bytes)} %` };
  }
  if (metric === "temperature") {
    const v = pick(sample?.[3], "temperature_celsius");
    return v === null ? none : { share: (v - 20) / (HOT_CELSIUS - 20), text: `${number(v)} °C` };
  }
  const v = pick(sample?.[4], "power_watts");
  const limit = stored.power_limit_watts || POWER_WATTS;
  return v === null ? none : { share: v / limit, text: `${number(v)} W` };
}

const css = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function drawLabels(g: CanvasRenderingContext2D, labels: NodeLabel[]) {
  g.font = "11px RedHatText, sans-serif";
  g.fillStyle = css("--pf-t--global--text--color--subtle");
  for (const l of labels) {
    let text = l.text;
    while (text.length > 1 && g.measureText(text).width > l.width) text = text.slice(0, -1);
    g.fillText(text === l.text ? text : `${text.slice(0, -1)}…`, l.x, l.y + LABEL_HEIGHT - 5);
  }
}

/** A cross, not only a colour, marks what is out of reach. */
function drawCross(g: CanvasRenderingContext2D, { x, y }: Cell, colour: string) {
  g.strokeStyle = colour;
  g.lineWidth = 2;
  g.beginPath();
  g.moveTo(x + 3, y + 3);
  g.lineTo(x + CELL - 5, y + CELL - 5);
  g.moveTo(x + CELL - 5, y + 3);
  g.lineTo(x + 3, y + CELL - 5);
  g.stroke();
}

/** Draw the scene with a frame around the current cell. */
export function draw(canvas: HTMLCanvasElement, width: number, scene: Scene, current: number) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = scene.height * ratio;
  const g = canvas.getContext("2d");
  if (!g) return;
  g.scale(ratio, ratio);
  drawLabels(g, scene.labels);
  const [free, danger, line] = [
    css("--bb-free"),
    css("--pf-t--global--icon--color--status--danger--default"),
    css("--pf-t--global--text--color--regular"),
  ];
  scene.cells.forEach((c, i) => {
    const { share } = scene.value(c.gpu);
    g.fillStyle = share === null ? free : heatColour(share);
    g.fillRect(c.x, c.y, CELL - 2, CELL - 2);
    if (scene.isBad(c.gpu)) drawCross(g, c, danger);
    if (i !== current) return;
    g.strokeStyle = line;
    g.lineWidth = 2;
    g.strokeRect(c.x - 1, c.y - 1, CELL, CELL);
  });
}
