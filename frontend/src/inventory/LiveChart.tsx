// Chart of one metric over the last five minutes. Missing samples appear as gaps.
import { useEffect, useRef, useState } from "react";
import uPlot from "uplot";
import "uplot/dist/uPlot.min.css";
import { type Sample, useSamples } from "../api/samples";

const WINDOW_SECONDS = 300;
const GAP_SECONDS = 5;
const HEIGHT = 180;

export interface ChartProps {
  gpuId: string;
  /** Index of the metric in a sample. */
  reading: 1 | 2 | 3 | 4;
  label: string;
  tone: string;
  max?: number;
  scale?: number;
  unit: string;
}

const colour = (name: string) =>
  getComputedStyle(document.documentElement).getPropertyValue(name).trim();

/** Return times and values. A null value interrupts the line where samples are missing. */
function chartData(
  samples: Sample[],
  reading: number,
  scale: number,
): [number[], (number | null)[]] {
  const times: number[] = [];
  const values: (number | null)[] = [];
  for (const s of samples) {
    const last = times.at(-1);
    if (last !== undefined && s[0] - last > GAP_SECONDS) {
      times.push(last + 0.001);
      values.push(null);
    }
    times.push(s[0]);
    const value = s[reading as 1];
    values.push(value == null ? null : value / scale);
  }
  return [times, values];
}

const clock = (seconds: number) =>
  new Date(seconds * 1000).toLocaleTimeString([], {
    hour: "2-digit",
    minute: "2-digit",
    hour12: false,
  });

function options(props: ChartProps, width: number): uPlot.Options {
  const text = colour("--pf-t--global--text--color--subtle");
  const axis = {
    stroke: text,
    grid: { stroke: colour("--pf-t--global--border--color--default"), width: 1 },
    ticks: { show: false },
  };
  return {
    width,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, sync: { key: "gpu" } },
    scales: {
      x: { time: true, range: (_u, _min, max) => [max - WINDOW_SECONDS, max] },
      y: { range: [0, props.max ?? 1] },
    },
    axes: [
      { ...axis, values: (_u, ticks) => ticks.map(clock) },
      { ...axis, size: 64, values: (_u, ticks) => ticks.map((t) => `${t} ${props.unit}`) },
    ],
    series: [
      {},
      {
        label: props.label,
        stroke: colour(props.tone),
        fill: `${colour(props.tone)}33`,
        width: 2,
        points: { show: false },
        spanGaps: false,
      },
    ],
  };
}

export default function LiveChart(props: ChartProps) {
  const { gpuId, reading, scale = 1, max, label, unit, tone } = props;
  const container = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const samples = useSamples(gpuId);
  const [theme, setTheme] = useState(0);

  useEffect(() => {
    const redraw = () => setTheme((n) => n + 1);
    window.addEventListener("busbar-theme", redraw);
    return () => window.removeEventListener("busbar-theme", redraw);
  }, []);

  // biome-ignore lint/correctness/useExhaustiveDependencies: the next effect sets the data; a new theme needs a new plot
  useEffect(() => {
    const element = container.current as HTMLDivElement;
    const u = new uPlot(
      options(props, element.clientWidth),
      chartData(samples, reading, scale),
      element,
    );
    plot.current = u;
    const resized = new ResizeObserver(() =>
      u.setSize({ width: element.clientWidth, height: HEIGHT }),
    );
    resized.observe(element);
    return () => {
      resized.disconnect();
      u.destroy();
    };
  }, [gpuId, reading, theme, max, label, unit, tone]);

  useEffect(
    () => plot.current?.setData(chartData(samples, reading, scale)),
    [samples, reading, scale],
  );

  const latest = samples.at(-1)?.[reading as 1];
  const valueText =
    latest == null ? "no samples yet" : `${(latest / scale).toFixed(scale > 1 ? 2 : 0)} ${unit}`;
  return (
    <figure className="bb-chart" aria-label={`${label}, last 5 minutes; latest ${valueText}`}>
      <figcaption>
        {label} <b data-reading={label}>{valueText}</b>
      </figcaption>
      <div ref={container} />
    </figure>
  );
}
