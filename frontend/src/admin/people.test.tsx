// @vitest-environment jsdom
import { cleanup, fireEvent, screen, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { answerActions, given, show, stubResizeObserver } from "../actions/answeringServer";
import { cache } from "../api/cache";
import { api } from "../api/client";
import { BindingsPane, RolesPane, UsersPane } from "./people";
import { TokensPane } from "./TokensPane";

const token = (id: string, name: string) =>
  ({ id, name, user: "mei", scopes: [], networks: [] }) as never;
const openMenu = async (name: string) =>
  fireEvent.click(await screen.findByRole("button", { name }));
const item = (name: RegExp) => screen.findByRole("menuitem", { name });

beforeEach(stubResizeObserver);
afterEach(() => {
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

test("a token that must not be revoked says why in its menu, and stays", async () => {
  const asked = answerActions(["revoke"], { "tokens/1": { revoke: "It is of another user." } });
  const send = vi.spyOn(api, "DELETE");
  given("tokens", [token("1", "backup"), token("2", "ci")]);
  show(<TokensPane />);
  await screen.findByText("backup");
  expect(asked).toEqual([]);
  await openMenu("Actions of backup");
  const refused = await item(/Revoke/);
  expect(refused.textContent).toContain("It is of another user.");
  expect(refused.getAttribute("aria-disabled")).toBe("true");
  fireEvent.click(refused);
  expect(screen.queryByRole("dialog")).toBeNull();
  expect(send).not.toHaveBeenCalled();
  expect(asked).toEqual([["tokens/1"]]);
});

test("an allowed revocation asks first and is sent", async () => {
  answerActions(["revoke"]);
  const send = vi.spyOn(api, "DELETE").mockResolvedValue({ response: new Response() } as never);
  given("tokens", [token("1", "backup")]);
  show(<TokensPane />);
  await openMenu("Actions of backup");
  fireEvent.click(await item(/Revoke/));
  const dialog = await screen.findByRole("dialog");
  expect(dialog.textContent).toContain("Programs that use the token are refused");
  fireEvent.click(within(dialog).getByRole("button", { name: "Revoke" }));
  await vi.waitFor(() => expect(send).toHaveBeenCalledTimes(1));
  expect(send.mock.calls[0]?.[1]).toEqual({ params: { path: { token_id: "1" } } });
});

test("the bulk bar asks once, and refuses if one of the chosen objects does", async () => {
  const last = "It is the last administrator.";
  const asked = answerActions(["delete"], { "role-bindings/2": { delete: last } });
  given("bindings", [
    { id: "1", role: "viewer", user: "mei" },
    { id: "2", role: "administrator", user: "li" },
  ]);
  show(<BindingsPane />);
  fireEvent.click(await screen.findByRole("checkbox", { name: "Select all rows" }));
  await openMenu("2 selected");
  const refused = await item(/Delete/);
  expect(refused.textContent).toContain(last);
  expect(refused.getAttribute("aria-disabled")).toBe("true");
  expect(asked).toEqual([["role-bindings/1", "role-bindings/2"]]);
});

test("a custom role has a menu, and a built-in role has none", async () => {
  answerActions(["delete", "update"], { "roles/1": { delete: "It is in use." } });
  given("roles", [
    { id: null, name: "viewer", built_in: true, privileges: [] },
    { id: "1", name: "night-shift", built_in: false, privileges: ["alarms.view"] },
  ]);
  show(<RolesPane />);
  await openMenu("Actions of night-shift");
  expect((await item(/Delete/)).textContent).toContain("It is in use.");
  expect((await item(/Edit/)).getAttribute("aria-disabled")).not.toBe("true");
  expect(screen.queryByRole("button", { name: "Actions of viewer" })).toBeNull();
});

test("a user is deactivated in the version that the list shows", async () => {
  answerActions(["deactivate"]);
  const send = vi.spyOn(api, "PATCH").mockResolvedValue({
    data: { id: "1", version: 6 },
    response: new Response(),
  } as never);
  given("users", [{ id: "1", username: "li", is_active: true, version: 5 }]);
  show(<UsersPane />);
  await openMenu("Actions of li");
  fireEvent.click(await item(/Deactivate/));
  const dialog = await screen.findByRole("dialog");
  fireEvent.click(within(dialog).getByRole("button", { name: "Deactivate" }));
  await vi.waitFor(() => expect(send).toHaveBeenCalledTimes(1));
  const headers = { "If-Match": '"5"' };
  expect(send.mock.calls[0]?.[1]).toMatchObject({ body: { is_active: false }, headers });
});
