// The received share of the compute, as a metric of allocations and sessions.
import type { Metric } from "./MetricsPanel";

export const RECEIVED_METRIC: Metric = {
  name: "compute_received_percent",
  label: "metric.received",
  unit: "%",
  tone: "--bb-tone-3",
  digits: 1,
  max: 100,
};
