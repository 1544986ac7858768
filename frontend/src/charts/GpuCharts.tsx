import { useCallback, useEffect, useMemo } from "react";
import type { Gpu } from "../api/client";
import { useSamples, watch } from "../api/samples";
import { gpuName } from "../tables/ObjectLink";
import { t } from "../text/text";
import { type Metric, MetricsPanel } from "./MetricsPanel";
import { liveSeries } from "./series";

const GIB = 2 ** 30;
const READINGS: Record<string, 1 | 2 | 3 | 4> = {
  utilisation_percent: 1,
  memory_used_bytes: 2,
  temperature_celsius: 3,
  power_watts: 4,
};

const UTILISATION: Metric = {
  name: "utilisation_percent",
  label: "metric.utilisation",
  unit: "%",
  tone: "--bb-copper",
  max: 100,
};
const MEMORY: Metric = {
  name: "memory_used_bytes",
  label: "metric.memory",
  unit: "GiB",
  tone: "--bb-teal",
  digits: 2,
  scale: GIB,
};
const TEMPERATURE: Metric = {
  name: "temperature_celsius",
  label: "metric.temperature",
  unit: "°C",
  tone: "--bb-tone-4",
  max: 100,
};
const POWER: Metric = {
  name: "power_watts",
  label: "metric.power",
  unit: "W",
  tone: "--bb-tone-2",
};
const ECC: Metric = {
  name: "ecc_uncorrected_errors",
  label: "metric.ecc",
  unit: "",
  tone: "--bb-tone-5",
};

export function GpuCharts({ gpu }: { gpu: Gpu }) {
  useEffect(() => watch([gpu.id]), [gpu.id]);
  const samples = useSamples(gpu.id);
  const limit = (gpu.metrics as Record<string, number>).power_limit_watts;
  const metrics = useMemo(
    (): Metric[] => [
      UTILISATION,
      { ...MEMORY, max: gpu.memory_bytes / GIB },
      TEMPERATURE,
      limit ? { ...POWER, max: limit } : POWER,
      ECC,
    ],
    [gpu.memory_bytes, limit],
  );
  const live = useCallback(
    (m: Metric) => {
      const reading = READINGS[m.name];
      return reading ? liveSeries(samples, reading, m.scale ?? 1) : undefined;
    },
    [samples],
  );
  return (
    <MetricsPanel
      kind="gpus"
      id={gpu.id}
      title={t("chart.of", { name: gpuName(gpu) })}
      metrics={metrics}
      live={live}
    />
  );
}
