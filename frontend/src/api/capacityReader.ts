// When the capacity is read again after changes of what it is computed from.
import type { QueryClient } from "@tanstack/react-query";

/** The least time between two readings. */
const CAPACITY_MS = 5_000;
const QUERY = { queryKey: ["capacity"] };

/**
 * Computing the capacity takes the appliance longer than a change, which all consoles get at the
 * same time: each reads it within a second after a first change, and after later ones together. A
 * reading that takes long is not cancelled by the next.
 */
export class CapacityReader {
  private timer = 0;
  private isOld = false;

  constructor(private readonly cache: QueryClient) {}

  /** Read the capacity soon: it has changed. */
  invalidate() {
    this.isOld = true;
    if (this.timer !== 0) return;
    this.timer = window.setTimeout(() => this.read(), Math.random() * 1_000);
  }

  private read() {
    this.isOld = this.cache.isFetching(QUERY) > 0; // it began before the change
    void this.cache.invalidateQueries(QUERY, { cancelRefetch: false });
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      if (this.isOld) this.invalidate();
    }, CAPACITY_MS);
  }

  close() {
    window.clearTimeout(this.timer);
  }
}
