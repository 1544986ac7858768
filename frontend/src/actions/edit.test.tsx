// @vitest-environment jsdom
import { cleanup, fireEvent, screen, waitFor, within } from "@testing-library/react";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { cache } from "../api/cache";
import { api } from "../api/client";
import { given, show } from "./answeringServer";
import { editPool } from "./forms";
import { SPECS, perform } from "./registry";

const POOL = { kind: "pools", id: "9", name: "lab" } as const;
const NEW = {
  id: "9",
  name: "lab",
  policies: ["pack"],
  projects: [],
  fallbacks: ["default"],
  max_lifetime_seconds: 60,
  max_idle_seconds: 30,
  required_isolation: "any",
  admit_new_gpus: false,
  version: 4,
};

/** An appliance with one pool, as `GET`, `PATCH` and the audit show it. */
let row = { ...NEW };
let everywhere = ["pools.manage"];
/** Whether the next request of the right version fails. */
let failNext = false;
const sent: [object, string][] = [];
/** Audit records, the newest first. */
let records: object[] = [];
const answer = (data: object, status = 200) => ({
  ...(status < 400 ? { data } : { error: data }),
  response: new Response(null, {
    status,
    headers: { ETag: `"${row.version}"` },
  }),
});
interface Page {
  params?: { query?: { cursor?: string; limit?: number } };
}
function get(path: string, { params }: Page = {}) {
  if (path === "/api/v1/access")
    return answer({ privileges: everywhere.map((name) => ({ name, bindings: [] })) });
  if (path === "/api/v1/audit") {
    const { cursor = "0", limit = 50 } = params?.query ?? {};
    const end = Number(cursor) + limit;
    const next = end < records.length ? String(end) : null;
    return answer({ items: records.slice(Number(cursor), end), next });
  }
  return answer({ ...row });
}
function patch(body: object, version: string) {
  sent.push([body, version]);
  if (version !== `"${row.version}"`) return answer({ code: "stale", detail: "It changed." }, 412);
  if (failNext) {
    failNext = false;
    return answer({ code: "busy", detail: "Too busy." }, 503);
  }
  row = { ...row, ...body, version: row.version + 1 };
  return answer({ ...row });
}

const change = (of: object, actor = "li") => {
  row = { ...row, ...of, version: row.version + 1 };
  records = [{ actor, after: { ...of, version: row.version } }, ...records];
};
const box = (name: string) => screen.findByRole<HTMLInputElement>("spinbutton", { name });
const type = async (name: string, value: string) =>
  fireEvent.change(await box(name), { target: { value } });
const save = () => screen.getByRole<HTMLButtonElement>("button", { name: "Save" });
const LIFETIME = "Longest lifetime, seconds";
const IDLE = "Longest idle time, seconds";

beforeEach(() => {
  row = { ...NEW };
  everywhere = ["pools.manage"];
  sent.length = 0;
  records = [];
  cache.setQueryData(["me"], { username: "mei", privileges: ["audit.read"] });
  vi.spyOn(api, "GET").mockImplementation((async (path: string, page?: Page) =>
    get(path, page)) as never);
  vi.spyOn(api, "PATCH").mockImplementation((async (
    _: string,
    { body, headers }: { body: object; headers: Record<string, string> },
  ) => patch(body, headers["If-Match"] ?? "")) as never);
  show(<main />);
});
afterEach(() => {
  cleanup();
  cache.clear();
  vi.restoreAllMocks();
});

async function closed() {
  await waitFor(() => expect(screen.queryByRole("dialog")).toBeNull());
}

test("a form sends only what was changed, of the version that it shows", async () => {
  await editPool(POOL);
  await box(LIFETIME);
  expect(save().disabled).toBe(true);
  await type(LIFETIME, "90");
  fireEvent.click(save());
  await closed();
  expect(sent).toEqual([[{ max_lifetime_seconds: 90 }, '"4"']]);
});

test("a form shows the object as it is now, not as the list was read", async () => {
  given("pools", [NEW]);
  change({ max_idle_seconds: 45 });
  await editPool(POOL);
  expect((await box(IDLE)).value).toBe("45");
});

test("an emptied limit is sent as none", async () => {
  await editPool(POOL);
  await type(IDLE, "");
  fireEvent.click(save());
  await closed();
  expect(sent.map(([body]) => body)).toEqual([{ max_idle_seconds: 0 }]);
});

test("a refused field is marked, and the message has its label", async () => {
  const errors = [
    { pointer: "/max_lifetime_seconds", message: "Too long." },
    { pointer: "/fallbacks/0", message: "Not found." },
    { pointer: "/version", message: "Unknown." },
  ];
  vi.mocked(api.PATCH).mockResolvedValueOnce(answer({ code: "invalid", errors }, 400) as never);
  await editPool(POOL);
  await type(LIFETIME, "90");
  fireEvent.click(save());
  const text = `${LIFETIME}: Too long. Fallback pools: Not found. version: Unknown.`;
  expect(await screen.findByText(text)).toBeTruthy();
  const marked = document.querySelectorAll<HTMLElement>("[aria-invalid=true]");
  expect([...marked].map(({ id }) => id)).toEqual([
    "field-fallbacks",
    "field-max_lifetime_seconds",
  ]);
  const describing = (await box(LIFETIME)).getAttribute("aria-describedby") ?? "";
  expect(document.getElementById(describing)?.textContent).toContain("Too long.");
  fireEvent.click(save());
  await closed();
});

test("a change by others of another field is kept, and no question is asked", async () => {
  await editPool(POOL);
  await type(LIFETIME, "90");
  change({ max_idle_seconds: 45 });
  fireEvent.click(save());
  await closed();
  expect(row).toMatchObject({ max_lifetime_seconds: 90, max_idle_seconds: 45 });
});

test("a failure after a change by others restores nothing when the form is saved again", async () => {
  await editPool(POOL);
  await type(LIFETIME, "90");
  change({ max_idle_seconds: 45 });
  failNext = true;
  fireEvent.click(save());
  await screen.findByText("Too busy.");
  fireEvent.click(save());
  await closed();
  expect(row).toMatchObject({ max_lifetime_seconds: 90, max_idle_seconds: 45 });
});

test.each([
  { side: "Yours: 90", saved: 90, requests: 2 },
  { side: "Theirs: 75", saved: 75, requests: 1 },
])("$side can be chosen after a change of the same field", async ({ side, saved, requests }) => {
  await editPool(POOL);
  await type(LIFETIME, "90");
  await type(IDLE, "20");
  change({ max_lifetime_seconds: 75, max_idle_seconds: 20 });
  fireEvent.click(save());
  const alert = await screen.findByText(/Changed by li/);
  expect(screen.getAllByRole("radiogroup")).toHaveLength(1); // both idle times are the same
  expect((await screen.findByRole<HTMLInputElement>("radio", { name: "Yours: 90" })).checked).toBe(
    true,
  );
  fireEvent.click(screen.getByRole("radio", { name: side }));
  expect((await box(LIFETIME)).value).toBe(String(saved));
  if (requests > 1) fireEvent.click(save());
  else expect(save().disabled).toBe(true); // theirs is what the pool has
  if (requests > 1) await closed();
  expect(alert).toBeTruthy();
  expect(sent).toHaveLength(requests);
  expect(row.max_lifetime_seconds).toBe(saved);
});

const saveDisputed = async () => {
  await editPool(POOL);
  await type(LIFETIME, "90");
  change({ max_lifetime_seconds: 75 });
};

test("a record of another operation than the change is not named in its place", async () => {
  await saveDisputed();
  records = [{ actor: "wang", after: { names: "read" } }, ...records];
  fireEvent.click(save());
  expect(await screen.findByText(/Changed by li/)).toBeTruthy();
});

test("who has made the change is named behind many records of other operations", async () => {
  await saveDisputed();
  records = [...Array(250).fill({ actor: "wang", after: { names: "read" } }), ...records];
  fireEvent.click(save());
  expect(await screen.findByText(/Changed by li/)).toBeTruthy();
});

test("who resized an allocation is named, although its grant has no record", async () => {
  await saveDisputed();
  row = { ...row, version: row.version + 1 };
  fireEvent.click(save());
  expect(await screen.findByText(/Changed by li/)).toBeTruthy();
});

test("no user is named if several have changed the object", async () => {
  await saveDisputed();
  change({ max_idle_seconds: 45 }, "wang");
  fireEvent.click(save());
  expect(await screen.findByText(/Changed by another user/)).toBeTruthy();
});

test("no user is named if the change has no record", async () => {
  await saveDisputed();
  records = [];
  fireEvent.click(save());
  expect(await screen.findByText(/Changed by another user/)).toBeTruthy();
});

test("records without versions are not read back to the first one", async () => {
  await saveDisputed();
  records = Array.from({ length: 3000 }, () => ({ actor: "li", after: null }));
  const read = vi.mocked(api.GET);
  read.mockClear();
  fireEvent.click(save());
  expect(await screen.findByText(/Changed by another user/)).toBeTruthy();
  const paths = (read.mock.calls as unknown[][]).map((call) => call[0]);
  expect(paths.filter((path) => path === "/api/v1/audit")).toHaveLength(5);
});

test("a manager of one pool is offered what is theirs", async () => {
  everywhere = [];
  await editPool(POOL);
  const dialog = within(await screen.findByRole("dialog"));
  await box(LIFETIME);
  expect(dialog.getByText(/need a role on the whole appliance/)).toBeTruthy();
  expect(dialog.queryByText("Fallback pools")).toBeNull();
  expect(dialog.queryByText("Required isolation")).toBeNull();
});

test("a changed row is shown to who does not receive it from the feed", async () => {
  given("pools", [NEW]);
  await editPool(POOL);
  await type(LIFETIME, "90");
  fireEvent.click(save());
  await closed();
  expect(cache.getQueryData(["rows", "pool"])).toMatchObject([{ max_lifetime_seconds: 90 }]);
});

test("a user whom others have changed meanwhile is deactivated, and keeps their changes", async () => {
  const spec = SPECS.find((s) => s.kind === "users" && s.name === "deactivate");
  change({ is_active: true });
  const seen = { kind: "users", id: "9", name: "x", version: row.version } as const;
  change({ email: "x@example.org" });
  await perform(spec as NonNullable<typeof spec>, [seen]);
  fireEvent.click(await screen.findByRole("button", { name: "Deactivate" }));
  await closed();
  expect(row).toMatchObject({ is_active: false, email: "x@example.org" });
});

const FORMS = SPECS.filter((s) => /^action\.(edit|rename|move|resize)$/.test(s.label));
test.each(FORMS.map((spec) => [spec.kind, spec] as const))(
  "a form of %s reads the object first, and has nothing to send before a change",
  async (kind, spec) => {
    await perform(spec, [{ kind, id: "9", name: "x" }]);
    await screen.findByRole("dialog");
    const paths: unknown[] = vi.mocked(api.GET).mock.calls.map((call: unknown[]) => call[0]);
    expect(paths).toContain(`/api/v1/${kind}/9`);
    const button = screen.getByRole<HTMLButtonElement>("button", { name: /^(Save|Resize)$/ });
    expect(button.disabled).toBe(true);
    fireEvent.click(screen.getByRole("button", { name: "Cancel" }));
  },
);
