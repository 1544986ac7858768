// Heat map of all GPUs on one canvas: a thousand GPUs cost one element.
import { ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { useNavigate } from "@tanstack/react-router";
import { type KeyboardEvent, type MouseEvent, useEffect, useMemo, useRef, useState } from "react";
import { openContextMenu } from "../actions/ActionMenu";
import type { Gpu, Node } from "../api/client";
import { gpusByNode, partitionsByGpu } from "../api/indexes";
import { useRows } from "../api/queries";
import { latestSample, watch } from "../api/samples";
import { allocated } from "../inventory/capacity";
import { number } from "../model/format";
import { gpuName } from "../tables/ObjectLink";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { useStored } from "../ui/stored";
import {
  CELL,
  type Cell,
  type HeatMetric,
  LABEL_HEIGHT,
  METRICS,
  heatColour,
  layout,
  neighbour,
} from "./heat";

const REDRAW_MS = 1_000;
const HOT_CELSIUS = 100;
const POWER_WATTS = 700;

interface Value {
  share: number | null;
  text: string;
}

function readingOf(gpu: Gpu, metric: HeatMetric, percent: number): Value {
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

interface Scene {
  cells: Cell[];
  labels: { text: string; x: number; y: number; width: number }[];
  height: number;
  value: (gpu: Gpu) => Value;
  isBad: (gpu: Gpu) => boolean;
}

function draw(canvas: HTMLCanvasElement, width: number, scene: Scene, current: number) {
  const ratio = window.devicePixelRatio || 1;
  canvas.width = width * ratio;
  canvas.height = scene.height * ratio;
  const g = canvas.getContext("2d");
  if (!g) return;
  g.scale(ratio, ratio);
  g.font = "11px RedHatText, sans-serif";
  g.fillStyle = css("--pf-t--global--text--color--subtle");
  for (const l of scene.labels) {
    let text = l.text;
    while (text.length > 1 && g.measureText(text).width > l.width) text = text.slice(0, -1);
    g.fillText(text === l.text ? text : `${text.slice(0, -1)}…`, l.x, l.y + LABEL_HEIGHT - 5);
  }
  const [free, danger, line] = [
    css("--bb-free"),
    css("--pf-t--global--icon--color--status--danger--default"),
    css("--pf-t--global--text--color--regular"),
  ];
  scene.cells.forEach((c, i) => {
    const { share } = scene.value(c.gpu);
    g.fillStyle = share === null ? free : heatColour(share);
    g.fillRect(c.x, c.y, CELL - 2, CELL - 2);
    if (scene.isBad(c.gpu)) {
      // A cross, not only a colour, marks what is out of reach.
      g.strokeStyle = danger;
      g.lineWidth = 2;
      g.beginPath();
      g.moveTo(c.x + 3, c.y + 3);
      g.lineTo(c.x + CELL - 5, c.y + CELL - 5);
      g.moveTo(c.x + CELL - 5, c.y + 3);
      g.lineTo(c.x + 3, c.y + CELL - 5);
      g.stroke();
    }
    if (i === current) {
      g.strokeStyle = line;
      g.lineWidth = 2;
      g.strokeRect(c.x - 1, c.y - 1, CELL, CELL);
    }
  });
}

function useScene(nodes: Node[], gpus: Gpu[], width: number, metric: HeatMetric): Scene {
  const partitions = useRows("partition");
  return useMemo(() => {
    const groups = gpusByNode(gpus);
    const sorted = [...nodes].sort((a, b) =>
      a.name.localeCompare(b.name, undefined, { numeric: true }),
    );
    const lost = new Set(nodes.filter((n) => !n.reachable).map((n) => n.id));
    const byGpu = partitionsByGpu(partitions);
    return {
      ...layout(
        sorted.map((n) => ({
          name: n.name,
          gpus: [...(groups.get(n.id) ?? [])].sort((a, b) => a.index - b.index),
        })),
        width,
      ),
      value: (gpu) => readingOf(gpu, metric, allocated(byGpu.get(gpu.id) ?? []).percent),
      isBad: (gpu) => lost.has(gpu.node_id) || gpu.present === false,
    };
  }, [nodes, gpus, partitions, width, metric]);
}

export function HeatMap() {
  const [nodes, gpus] = [useRows("node"), useRows("gpu")];
  const [metric, setMetric] = useStored<HeatMetric>("heat.metric", "utilisation");
  const [width, setWidth] = useState(0);
  const [current, setCurrent] = useState(-1);
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const navigate = useNavigate();
  const scene = useScene(nodes, gpus, width, metric);
  const ids = useMemo(() => gpus.map((g) => g.id), [gpus]);
  useEffect(() => watch(ids), [ids]);
  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    return () => resized.disconnect();
  }, []);
  useEffect(() => {
    const redraw = () => canvas.current && width > 0 && draw(canvas.current, width, scene, current);
    redraw();
    const timer = window.setInterval(redraw, REDRAW_MS);
    window.addEventListener("busbar-theme", redraw);
    return () => {
      window.clearInterval(timer);
      window.removeEventListener("busbar-theme", redraw);
    };
  }, [scene, width, current]);

  const at = (e: MouseEvent) => {
    const place = canvas.current?.getBoundingClientRect();
    const [x, y] = [e.clientX - (place?.left ?? 0), e.clientY - (place?.top ?? 0)];
    return scene.cells.findIndex((c) => x >= c.x && x < c.x + CELL && y >= c.y && y < c.y + CELL);
  };
  const open = (index: number) => {
    const gpu = scene.cells[index]?.gpu;
    if (gpu) void navigate({ to: `/gpus/${gpu.id}` });
  };
  const onKeyDown = (e: KeyboardEvent) => {
    if (e.key === "Enter") open(current);
    else if (e.key.startsWith("Arrow"))
      setCurrent(current < 0 ? 0 : neighbour(scene.cells, current, e.key));
    else return;
    e.preventDefault();
  };
  const gpu = scene.cells[current]?.gpu;
  const metrics = (
    <ToggleGroup isCompact aria-label={t("fleet.heat")}>
      {METRICS.map((m) => (
        <ToggleGroupItem
          key={m}
          text={t(`metric.${m}`)}
          buttonId={`heat-${m}`}
          isSelected={m === metric}
          onChange={() => setMetric(m)}
        />
      ))}
    </ToggleGroup>
  );
  return (
    <Panel title={t("fleet.heat")} actions={metrics}>
      <p className="bb-quiet bb-heathelp">
        <span role="status">
          {gpu
            ? `${gpuName(gpu)}: ${scene.isBad(gpu) ? t("fleet.unreachable") : scene.value(gpu).text}`
            : t("fleet.heatHelp")}
        </span>
        <span className="bb-scale" aria-hidden>
          0 % <i /> 100 %
        </span>
      </p>
      <div ref={box}>
        <canvas
          ref={canvas}
          role="img"
          tabIndex={0}
          aria-label={t("fleet.heatLabel", { metric: t(`metric.${metric}`) })}
          className="bb-heat"
          style={{ height: scene.height }}
          onMouseMove={(e) => setCurrent(at(e))}
          onClick={(e) => open(at(e))}
          onContextMenu={(e) => {
            const found = scene.cells[at(e)]?.gpu;
            if (found) openContextMenu(e, { kind: "gpus", id: found.id, name: gpuName(found) });
          }}
          onKeyDown={onKeyDown}
        />
      </div>
    </Panel>
  );
}
