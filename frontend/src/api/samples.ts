// Recent samples of watched GPUs from the live feed. Stored outside React state, because they
// arrive several times a second.
import { useSyncExternalStore } from "react";

/** [Unix seconds, utilisation %, memory bytes, °C, W]; null means that the GPU lacks the sensor. */
export type Sample = [number, number | null, number | null, number | null, number | null];

const MAX_SAMPLES = 300;
const byGpu = new Map<string, Sample[]>();
const listeners = new Set<() => void>();
const watchers = new Map<string, number>();
const NONE: Sample[] = [];

export function addSamples(gpus: Record<string, Sample[]>) {
  for (const [id, fresh] of Object.entries(gpus)) {
    const known = byGpu.get(id) ?? [];
    const last = known.at(-1)?.[0] ?? 0;
    byGpu.set(id, [...known, ...fresh.filter((s) => s[0] > last)].slice(-MAX_SAMPLES));
  }
  for (const notify of listeners) notify();
}

let onWatch: (gpus: string[]) => void = () => {};
export const watched = () => [...watchers.keys()];
export function setWatcher(notify: (gpus: string[]) => void) {
  onWatch = notify;
}

/** Subscribe to GPUs. Returns the function that unsubscribes. */
export function watch(ids: string[]): () => void {
  for (const id of ids) watchers.set(id, (watchers.get(id) ?? 0) + 1);
  onWatch(watched());
  return () => {
    for (const id of ids) {
      const left = (watchers.get(id) ?? 1) - 1;
      if (left > 0) watchers.set(id, left);
      else watchers.delete(id);
    }
    onWatch(watched());
  };
}

const subscribe = (notify: () => void) => {
  listeners.add(notify);
  return () => listeners.delete(notify);
};
export const useSamples = (gpuId: string): Sample[] =>
  useSyncExternalStore(subscribe, () => byGpu.get(gpuId) ?? NONE);
/** The newest sample of a GPU, without a subscription. */
export const latestSample = (gpuId: string): Sample | undefined => byGpu.get(gpuId)?.at(-1);
