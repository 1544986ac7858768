// Asks the server which actions the user may perform. A menu asks when it opens; the buttons of
// rows that appear or change within BATCH_MS of each other ask in one request.
import { useQuery } from "@tanstack/react-query";
import { type Schema, api, unwrap } from "../api/client";
import type { Actionable } from "../model/kinds";

export type Answer = Schema<"Action">;
const MAX_OBJECTS = 500;
const STALE_MS = 2_000;
const BATCH_MS = 50;

const placeOf = (x: Actionable) => `${x.kind}/${x.id}`;

async function readActions(places: string[]): Promise<Map<string, Answer[]>> {
  const found = new Map<string, Answer[]>();
  for (let at = 0; at < places.length; at += MAX_OBJECTS) {
    const body = { objects: places.slice(at, at + MAX_OBJECTS) };
    const { items } = await api.POST("/api/v1/actions", { body }).then(unwrap);
    for (const item of items) found.set(item.object, item.actions ?? []);
  }
  return found;
}

/** Whether the user has a privilege on the whole appliance, and not at some objects only. */
export async function mayEverywhere(privilege: string): Promise<boolean> {
  const { privileges } = await api.GET("/api/v1/access").then(unwrap);
  return privileges.some((p) => p.name === privilege);
}

interface Batch {
  places: Set<string>;
  answers: Promise<Map<string, Answer[]>>;
}
let open: Batch | null = null;

function openBatch(): Batch {
  const places = new Set<string>();
  const answers = new Promise((resolve) => setTimeout(resolve, BATCH_MS)).then(() => {
    open = null;
    return readActions([...places]);
  });
  return { places, answers };
}

/** Read the actions of one object in a request with all others that are read within BATCH_MS. */
async function readTogether(place: string): Promise<Answer[]> {
  open ??= openBatch();
  open.places.add(place);
  return (await open.answers).get(place) ?? [];
}

/** Actions of the targets by `KIND/ID`, or undefined while they are read. */
export function useActions(
  targets: Actionable[],
  isEnabled = true,
): Map<string, Answer[]> | undefined {
  const places = targets.filter((x) => x.kind !== "sessions").map(placeOf);
  const query = useQuery({
    queryKey: ["actions", ...places],
    queryFn: () => readActions(places),
    staleTime: STALE_MS,
    enabled: isEnabled,
  });
  return query.data;
}

/** Actions of one of many objects with a button, or undefined while they are read. */
export function useRowActions(target: Actionable, isEnabled: boolean): Answer[] | undefined {
  const place = placeOf(target);
  const query = useQuery({
    queryKey: ["actions", "row", place],
    queryFn: () => readTogether(place),
    staleTime: STALE_MS,
    enabled: isEnabled,
  });
  return query.data;
}
