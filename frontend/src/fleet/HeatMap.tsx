// Heat map of all GPUs on one canvas: a thousand GPUs cost one element.
import { ToggleGroup, ToggleGroupItem } from "@patternfly/react-core";
import { useNavigate } from "@tanstack/react-router";
import {
  type KeyboardEvent,
  type MouseEvent,
  type RefObject,
  useEffect,
  useMemo,
  useRef,
  useState,
} from "react";
import { openContextMenu } from "../actions/ActionMenu";
import type { Gpu, Node } from "../api/client";
import { gpusByNode, partitionsByGpu } from "../api/indexes";
import { useRows } from "../api/queries";
import { watch } from "../api/samples";
import { allocated } from "../inventory/capacity";
import { gpuName } from "../tables/ObjectLink";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { useStored } from "../ui/stored";
import { CELL, type HeatMetric, METRICS, layout, neighbour } from "./heat";
import { type Scene, draw, readingOf } from "./heatDrawing";

const REDRAW_MS = 1_000;

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

/** Return the width of an element, which changes with the window. */
function useWidth(box: RefObject<HTMLDivElement | null>): number {
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const element = box.current as HTMLDivElement;
    const resized = new ResizeObserver(() => setWidth(element.clientWidth));
    resized.observe(element);
    return () => resized.disconnect();
  }, [box]);
  return width;
}

/** Draw now, after a change of the theme, and regularly: readings change without a change here. */
function useDrawing(
  canvas: RefObject<HTMLCanvasElement | null>,
  width: number,
  scene: Scene,
  current: number,
) {
  useEffect(() => {
    const redraw = () => canvas.current && width > 0 && draw(canvas.current, width, scene, current);
    redraw();
    const timer = window.setInterval(redraw, REDRAW_MS);
    window.addEventListener("busbar-theme", redraw);
    return () => {
      window.clearInterval(timer);
      window.removeEventListener("busbar-theme", redraw);
    };
  }, [canvas, scene, width, current]);
}

interface HeatProps {
  scene: Scene;
  current: number;
  setCurrent: (index: number) => void;
}

/** Handlers of pointer and keys: they choose a GPU, and open its page or its actions. */
function useHandlers({ scene, current, setCurrent }: HeatProps) {
  const navigate = useNavigate();
  const at = (e: MouseEvent) => {
    const place = e.currentTarget.getBoundingClientRect();
    const [x, y] = [e.clientX - place.left, e.clientY - place.top];
    return scene.cells.findIndex((c) => x >= c.x && x < c.x + CELL && y >= c.y && y < c.y + CELL);
  };
  const open = (index: number) => {
    const gpu = scene.cells[index]?.gpu;
    if (gpu) void navigate({ to: `/gpus/${gpu.id}` });
  };
  return {
    onMouseMove: (e: MouseEvent) => setCurrent(at(e)),
    onClick: (e: MouseEvent) => open(at(e)),
    onContextMenu: (e: MouseEvent) => {
      const found = scene.cells[at(e)]?.gpu;
      if (found) openContextMenu(e, { kind: "gpus", id: found.id, name: gpuName(found) });
    },
    onKeyDown: (e: KeyboardEvent) => {
      if (e.key === "Enter") open(current);
      else if (e.key.startsWith("Arrow"))
        setCurrent(current < 0 ? 0 : neighbour(scene.cells, current, e.key));
      else return;
      e.preventDefault();
    },
  };
}

interface MetricChoiceProps {
  metric: HeatMetric;
  setMetric: (metric: HeatMetric) => void;
}

function MetricChoice({ metric, setMetric }: MetricChoiceProps) {
  return (
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
}

/** What is read of the current GPU, and the scale of the colours. */
function Reading({ scene, current }: Pick<HeatProps, "scene" | "current">) {
  const gpu = scene.cells[current]?.gpu;
  const textOf = (g: Gpu) => (scene.isBad(g) ? t("fleet.unreachable") : scene.value(g).text);
  return (
    <p className="bb-quiet bb-heathelp">
      <span role="status">{gpu ? `${gpuName(gpu)}: ${textOf(gpu)}` : t("fleet.heatHelp")}</span>
      <span className="bb-scale" aria-hidden>
        0 % <i /> 100 %
      </span>
    </p>
  );
}

export function HeatMap() {
  const [nodes, gpus] = [useRows("node"), useRows("gpu")];
  const [metric, setMetric] = useStored<HeatMetric>("heat.metric", "utilisation");
  const [current, setCurrent] = useState(-1);
  const box = useRef<HTMLDivElement>(null);
  const canvas = useRef<HTMLCanvasElement>(null);
  const width = useWidth(box);
  const scene = useScene(nodes, gpus, width, metric);
  const ids = useMemo(() => gpus.map((g) => g.id), [gpus]);
  useEffect(() => watch(ids), [ids]);
  useDrawing(canvas, width, scene, current);
  const handlers = useHandlers({ scene, current, setCurrent });
  return (
    <Panel title={t("fleet.heat")} actions={<MetricChoice {...{ metric, setMetric }} />}>
      <Reading scene={scene} current={current} />
      <div ref={box}>
        <canvas
          ref={canvas}
          role="img"
          tabIndex={0}
          aria-label={t("fleet.heatLabel", { metric: t(`metric.${metric}`) })}
          className="bb-heat"
          style={{ height: scene.height }}
          {...handlers}
        />
      </div>
    </Panel>
  );
}
