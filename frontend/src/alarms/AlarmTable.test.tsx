// @vitest-environment jsdom
import { cleanup, fireEvent, screen, waitFor } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { answerActions, given, show, stubResizeObserver } from "../actions/answeringServer";
import { cache } from "../api/cache";
import { type Alarm, api } from "../api/client";
import { AlarmTable } from "./AlarmTable";
import { DefinitionsPane } from "./DefinitionsPane";

const alarm = (id: string, state = "active") =>
  ({ id, name: `Alarm ${id}`, severity: "info", state, object_name: "gpu-01", path: "" }) as Alarm;
const isOff = (x: HTMLElement) => x.getAttribute("aria-disabled") === "true";
const button = (id: string) =>
  screen.findByRole("button", { name: `Acknowledge: Alarm ${id}, gpu-01` });

beforeEach(stubResizeObserver);
afterEach(() => {
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
  vi.unstubAllGlobals();
});

test.each([true, false])("the server decides per alarm (plain: %s)", async (isPlain) => {
  const reason = "Your roles do not allow this here.";
  const asked = answerActions(["acknowledge"], { "alarms/2": { acknowledge: reason } });
  const alarms = [alarm("1"), alarm("2"), alarm("3", "acknowledged")];
  show(<AlarmTable alarms={alarms} label="Open alarms" isPlain={isPlain} />);
  await waitFor(async () => expect(isOff(await button("2"))).toBe(true));
  expect(asked).toEqual([["alarms/1", "alarms/2"]]);
  fireEvent.click(await button("2"));
  expect(screen.queryByRole("dialog")).toBeNull();
  fireEvent.click(await button("1"));
  expect(await screen.findByRole("dialog")).toBeTruthy();
  fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
});

test("a definition is enabled or disabled as its state asks, and deleted as the server allows", async () => {
  const builtin = "It comes with the product.";
  answerActions(["delete", "update"], { "alarm-definitions/1": { delete: builtin } });
  const send = vi.spyOn(api, "PATCH").mockResolvedValue({ response: new Response() } as never);
  given("alarmDefinitions", [
    { id: "1", name: "Hot", severity: "info", enabled: true, is_builtin: true, version: 3 },
  ]);
  show(<DefinitionsPane />);
  fireEvent.click(await screen.findByRole("button", { name: "Actions of Hot" }));
  await screen.findByRole("menuitem", { name: "Disable" });
  const items = screen.getAllByRole("menuitem");
  expect(items.map((i) => i.textContent)).toEqual(["Disable", "Edit", `Delete${builtin}`]);
  expect(items.map(isOff)).toEqual([false, false, true]);
  fireEvent.click(items[0] as HTMLElement);
  await waitFor(() => expect(send).toHaveBeenCalledTimes(1));
  const headers = { "If-Match": '"3"' };
  expect(send.mock.calls[0]?.[1]).toMatchObject({ body: { enabled: false }, headers });
});
