// Line chart of one metric. Charts with the same key share their crosshair.
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { number } from "../model/format";
import { locale } from "../text/text";
import type { Series } from "./series";

const HEIGHT = 150;
const DAY = 86_400;

export interface PlotProps {
  label: string;
  unit: string;
  tone: string;
  digits: number;
  /** Upper end of the axis, if the metric has one. */
  max?: number;
  seconds: number;
  syncKey: string;
  series: Series;
}

const colour = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function tickText(seconds: number, range: number): string {
  const at = new Date(seconds * 1000);
  return range > DAY
    ? at.toLocaleDateString(locale(), { month: "short", day: "numeric" })
    : at.toLocaleTimeString(locale(), { hour: "2-digit", minute: "2-digit", hour12: false });
}

const crosshairTime = (seconds: number) =>
  new Date(seconds * 1000).toLocaleString(locale(), { dateStyle: "short", timeStyle: "medium" });

/** Round an upper end up so that the axis ends at it, for example 8 of 7.5. */
function ceiling(value: number): number {
  const step = 10 ** Math.floor(Math.log10(Math.max(value, 1e-9)));
  return [1, 2, 4, 5, 8, 10].map((f) => f * step).find((v) => v >= value) ?? value;
}

interface Cursor {
  time: number;
  value: number | null;
}

function axes({ seconds, unit, digits }: PlotProps): uPlot.Axis[] {
  const axis = {
    stroke: colour("--pf-t--global--text--color--subtle"),
    font: "12px RedHatText, sans-serif",
    grid: { stroke: colour("--pf-t--global--border--color--default"), width: 1 },
    ticks: { show: false },
  };
  return [
    { ...axis, space: 70, values: (_u, ticks) => ticks.map((x) => tickText(x, seconds)) },
    {
      ...axis,
      size: 70,
      splits: (_u, _i, low, high) => [0, 0.25, 0.5, 0.75, 1].map((f) => low + f * (high - low)),
      values: (_u, ticks) =>
        ticks.map((x) => `${number(x, x % 1 ? Math.max(digits, 1) : 0)} ${unit}`),
    },
  ];
}

function cursorOf(u: uPlot): Cursor | null {
  const at = u.cursor.idx;
  const time = at == null ? undefined : u.data[0][at];
  return time === undefined || at == null ? null : { time, value: u.data[1]?.[at] ?? null };
}

function options(
  props: PlotProps,
  width: number,
  onCursor: (c: Cursor | null) => void,
): uPlot.Options {
  const { max, seconds, tone, label } = props;
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, sync: { key: props.syncKey } },
    hooks: { setCursor: [(u) => onCursor(cursorOf(u))] },
    scales: {
      x: { time: true, range: () => [Date.now() / 1000 - seconds, Date.now() / 1000] },
      y: { range: (_u, _min, high) => [0, max ?? ceiling(Math.max(high ?? 0, 1e-9))] },
    },
    axes: axes(props),
    series: [
      {},
      {
        label,
        stroke: colour(tone),
        fill: `${colour(tone)}33`,
        width: 2,
        points: { show: false },
        spanGaps: false,
      },
    ],
  };
}

/** Draw the chart into the container, anew after a change of its options or of the theme. */
function usePlot(props: PlotProps, onCursor: (c: Cursor | null) => void) {
  const { label, unit, series, max, seconds, syncKey, tone } = props;
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const [theme, setTheme] = useState(0);

  useEffect(() => {
    const redraw = () => setTheme((n) => n + 1);
    window.addEventListener("busbar-theme", redraw);
    return () => window.removeEventListener("busbar-theme", redraw);
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the next effect sets the data; a new theme needs a new plot
  useEffect(() => {
    const element = container.current as HTMLDivElement;
    const u = new uPlot(options(props, element.clientWidth, onCursor), series, element);
    plot.current = u;
    const resized = new ResizeObserver(() =>
      u.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    resized.observe(element);
    return () => {
      resized.disconnect();
      u.destroy();
    };
  }, [theme, max, label, unit, tone, seconds, syncKey]);

  useEffect(() => plot.current?.setData(series), [series]);
  return container;
}

export default function Plot(props: PlotProps) {
  const { label, unit, digits, series } = props;
  const [cursor, setCursor] = useState<Cursor | null>(null);
  const container = usePlot(props, setCursor);
  const latest = series[1].findLast((v) => v !== null);
  const text = (value: number | null | undefined) =>
    value == null ? "–" : `${number(value, digits)} ${unit}`;
  return (
    <figure className="bb-chart" aria-label={`${label}: ${text(latest)}`}>
      <figcaption>
        {label}{" "}
        <span>
          {cursor && <span className="bb-quiet">{crosshairTime(cursor.time)} </span>}
          <b data-reading={label}>{text(cursor ? cursor.value : latest)}</b>
        </span>
      </figcaption>
      <div ref={container} />
    </figure>
  );
}
