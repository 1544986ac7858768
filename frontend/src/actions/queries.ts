// Asks the server which actions the user may perform. A menu asks when it opens.
import { useQuery } from "@tanstack/react-query";
import { type Schema, api, unwrap } from "../api/client";
import type { Target } from "./kinds";

export type Answer = Schema<"Action">;
const MAX_OBJECTS = 500;

async function readActions(places: string[]): Promise<Map<string, Answer[]>> {
  const found = new Map<string, Answer[]>();
  for (let at = 0; at < places.length; at += MAX_OBJECTS) {
    const body = { objects: places.slice(at, at + MAX_OBJECTS) };
    const { items } = await api.POST("/api/v1/actions", { body }).then(unwrap);
    for (const item of items) found.set(item.object, item.actions ?? []);
  }
  return found;
}

/** Actions of the targets by `KIND/ID`, or undefined while they are read. */
export function useActions(targets: Target[]): Map<string, Answer[]> | undefined {
  const places = targets.filter((x) => x.kind !== "sessions").map((x) => `${x.kind}/${x.id}`);
  const query = useQuery({
    queryKey: ["actions", ...places],
    queryFn: () => readActions(places),
    staleTime: 2_000,
  });
  return query.data;
}
