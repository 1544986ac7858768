// The appliance's REST API: typed by its own OpenAPI file, errors as sentences, lists whole.
import createClient from "openapi-fetch";
import type { components, paths } from "./schema";

type Schemas = components["schemas"];
export type Node = Schemas["Node"];
export type Gpu = Schemas["Gpu"];
export type Pool = Schemas["Pool"];
export type Partition = Schemas["OccupiedPartition"];
export type Allocation = Schemas["Allocation"];
export type AllocationRequest = Schemas["AllocationRequest"];
export type Session = Schemas["Session"];
export type Task = Schemas["Task"];
export type Event = Schemas["Event"];
export type Me = Schemas["Me"];
export type Capacity = Schemas["Capacity"];

export const api = createClient<paths>({ baseUrl: "/" });

/** What the appliance said, and its stable code. */
export class Problem extends Error {
  constructor(
    readonly code: string,
    detail: string,
    readonly status: number,
    readonly fields: Record<string, unknown> = {},
  ) {
    super(detail);
  }
}

interface ProblemBody {
  code?: string;
  detail?: string;
  errors?: { pointer: string; message: string }[];
}

/** The body of an answer, or a Problem. */
export function unwrap<T>({ data, error, response }: { data?: T; error?: unknown; response: Response }): T {
  if (response.ok) return data as T;
  const body = (error ?? {}) as ProblemBody;
  const fields = (body.errors ?? []).map((e) => `${e.pointer.slice(1)}: ${e.message}`).join(" ");
  throw new Problem(body.code ?? "", fields || (body.detail ?? `The appliance answered ${response.status}.`), response.status, { ...body });
}

/** POST carries a key, so that a repeated click or a lost answer has one effect. */
export const once = () => ({ "Idempotency-Key": crypto.randomUUID() });

interface Page<T> {
  items: T[];
  next: string | null;
}

/** Every page of a list. */
export async function all<T>(read: (cursor: string | undefined) => Promise<Page<T>>): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    found.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor);
  return found;
}
