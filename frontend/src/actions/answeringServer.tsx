// For tests: a server that answers which actions are allowed, lists, and a page around what is tested.
import { QueryClientProvider } from "@tanstack/react-query";
import {
  RouterProvider,
  createMemoryHistory,
  createRootRoute,
  createRouter,
} from "@tanstack/react-router";
import { render } from "@testing-library/react";
import type { ReactNode } from "react";
import { vi } from "vitest";
import { cache } from "../api/cache";
import { type Me, api } from "../api/client";
import { type ListName, listQuery } from "../api/lists";
import { AccountContext } from "../model/account";
import { ConfirmDialog } from "../ui/confirm";
import { DialogHost } from "./dialogs";
import type { Answer } from "./queries";

/** Reasons of refusals by `KIND/ID` and action; what is not named is allowed. */
export type Refusals = Record<string, Record<string, string>>;

const ME = { id: "7", username: "mei", privileges: [] } as unknown as Me;

/** Answer POST /actions with these actions of each object; return the objects of each request. */
export function answerActions(names: readonly string[], refusals: Refusals = {}): string[][] {
  const asked: string[][] = [];
  const answersOf = (object: string): Answer[] =>
    names.map((name) => {
      const reason = refusals[object]?.[name] ?? null;
      return { name, allowed: reason === null, reason };
    });
  vi.spyOn(api, "POST").mockImplementation((async (
    _path: string,
    { body }: { body: { objects: string[] } },
  ) => {
    asked.push(body.objects);
    const items = body.objects.map((object) => ({ object, actions: answersOf(object) }));
    return { data: { items }, response: new Response() };
  }) as never);
  return asked;
}

/** Let the console have read a list. */
export const given = (list: ListName, rows: unknown[]) =>
  cache.setQueryData(listQuery(list).queryKey, rows as never);

/** Give jsdom the observer that tables need. `vi.unstubAllGlobals` takes it away. */
export const stubResizeObserver = () =>
  vi.stubGlobal(
    "ResizeObserver",
    class {
      observe() {}
      disconnect() {}
    },
  );

/** Render in a page with dialogs, if not said otherwise as a user without any privilege. */
export function show(content: ReactNode, me: Partial<Me> = ME) {
  const page = () => (
    <>
      {content}
      <DialogHost />
      <ConfirmDialog />
    </>
  );
  const router = createRouter({
    routeTree: createRootRoute({ component: page }),
    history: createMemoryHistory(),
  });
  return render(
    <QueryClientProvider client={cache}>
      <AccountContext value={{ me: me as Me, live: true, lastLive: null }}>
        <RouterProvider router={router as never} />
      </AccountContext>
    </QueryClientProvider>,
  );
}
