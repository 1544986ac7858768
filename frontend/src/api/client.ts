// Client of the appliance's REST API with types from its OpenAPI description.
import createClient from "openapi-fetch";
import { t } from "../text/text";
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
export type Alarm = Schemas["Alarm"];
export type AlarmDefinition = Schemas["AlarmDefinition"];
export type Me = Schemas["Me"];
export type Capacity = Schemas["Capacity"];

export type Schema<Name extends keyof Schemas> = Schemas[Name];

interface FieldError {
  pointer: string;
  message: string;
}

interface ProblemBody {
  code?: string;
  detail?: string;
  errors?: FieldError[];
}

/** A problem document of the appliance with its stable code. */
export class Problem extends Error {
  constructor(
    readonly code: string,
    detail: string,
    readonly status: number,
    readonly fields: Record<string, unknown> = {},
  ) {
    super(detail);
  }

  /** What is wrong with fields of the request, by their JSON pointers. */
  get errors(): FieldError[] {
    return (this.fields as ProblemBody).errors ?? [];
  }
}

/** Code of a Problem without an answer of the appliance. */
export const UNREACHABLE = "unreachable";

/** Send a request. Throws Problem UNREACHABLE instead of the browser's own error. */
async function send(request: Request): Promise<Response> {
  const response = await fetch(request).catch((cause: unknown) => {
    if (cause instanceof DOMException && cause.name === "AbortError") throw cause;
    const text = request.method === "GET" ? "error.unreachable" : "error.unknown";
    throw new Problem(UNREACHABLE, t(text), 0);
  });
  // A wrong password at sign-in, or code of a mail, is no end of the session.
  const isSignIn = /\/(browser-login|provider-logins\/return|password-resets\/completion)$/.test(
    request.url,
  );
  if (response.status === 401 && !isSignIn)
    window.dispatchEvent(new window.Event("busbar-signed-out"));
  return response;
}

export const api = createClient<paths>({ baseUrl: "/", fetch: send });

/** Return the body of a response. Throws Problem for an error response. */
export function unwrap<T>({
  data,
  error,
  response,
}: {
  data?: T;
  error?: unknown;
  response: Response;
}): T {
  if (response.ok) return data as T;
  const body = (error ?? {}) as ProblemBody;
  const fields = (body.errors ?? []).map((e) => `${e.pointer.slice(1)}: ${e.message}`).join(" ");
  throw new Problem(
    body.code ?? "",
    fields || (body.detail ?? t("error.status", { status: response.status })),
    response.status,
    { ...body },
  );
}

/** Header that makes a repeated POST return the first response. */
export const idempotencyKey = () => ({ "Idempotency-Key": crypto.randomUUID() });

interface Page<T> {
  items: T[];
  next: string | null;
}

/** Read all pages of a list. */
export async function readAllPages<T>(
  read: (cursor: string | undefined) => Promise<Page<T>>,
): Promise<T[]> {
  const found: T[] = [];
  let cursor: string | undefined;
  do {
    const page = await read(cursor);
    found.push(...page.items);
    cursor = page.next ?? undefined;
  } while (cursor);
  return found;
}
