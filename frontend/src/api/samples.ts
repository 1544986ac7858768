// The last minutes of each watched GPU, as the live feed sends them. Outside of React: samples come several times a second.
import { useSyncExternalStore } from "react";

/** [seconds, utilisation %, memory bytes, °C, W]; null is a reading that the GPU does not have. */
export type Sample = [number, number | null, number | null, number | null, number | null];

const KEPT = 300;
const byGpu = new Map<string, Sample[]>();
const listeners = new Set<() => void>();
const watchers = new Map<string, number>();
const NONE: Sample[] = [];

export function addSamples(gpus: Record<string, Sample[]>) {
  for (const [id, fresh] of Object.entries(gpus)) {
    const known = byGpu.get(id) ?? [];
    const last = known.at(-1)?.[0] ?? 0;
    byGpu.set(id, [...known, ...fresh.filter((s) => s[0] > last)].slice(-KEPT));
  }
  for (const tell of listeners) tell();
}

let onWatch: (gpus: string[]) => void = () => {};
export const watched = () => [...watchers.keys()];
export function setWatcher(tell: (gpus: string[]) => void) {
  onWatch = tell;
}

/** Watches while somebody looks. */
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

const subscribe = (tell: () => void) => {
  listeners.add(tell);
  return () => listeners.delete(tell);
};
export const useSamples = (gpuId: string): Sample[] => useSyncExternalStore(subscribe, () => byGpu.get(gpuId) ?? NONE);
