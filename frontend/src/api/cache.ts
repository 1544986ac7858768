// Query cache of the console. Actions use it outside components.
import { QueryClient } from "@tanstack/react-query";
import { Problem } from "./client";

/** Whether the same request would fail again. */
export const isFinal = (error: Error | null) =>
  error instanceof Problem && error.status >= 400 && error.status < 500;

export const cache = new QueryClient({
  defaultOptions: {
    queries: {
      retry: (failures, error) => !isFinal(error) && failures < 2,
      retryDelay: (failures) => 500 * (failures + 1),
      refetchOnWindowFocus: false,
      // The console is often used on networks without internet access.
      networkMode: "always",
    },
    mutations: { networkMode: "always" },
  },
});

/**
 * Read again what a change may have affected and the live feed does not carry. It carries pools, but
 * not that the user may no longer view one.
 */
export function refresh() {
  for (const queryKey of [["list"], ["rows", "pool"], ["detail"], ["actions"], ["capacity"]])
    void cache.invalidateQueries({ queryKey });
}
