// Renews the leases of allocations created on this page by heartbeats while the page is open.
// The ids are stored in the tab, so that a reload continues.
import { api } from "../api/client";

const STORAGE_KEY = "busbar.leases";
const RENEWAL_MS = 8_000;

const storedIds = (): string[] =>
  JSON.parse(sessionStorage.getItem(STORAGE_KEY) ?? "[]") as string[];
const storeIds = (ids: string[]) => sessionStorage.setItem(STORAGE_KEY, JSON.stringify(ids));

export const keepLease = (id: string) => storeIds([...storedIds(), id]);

async function renewLeases() {
  for (const id of storedIds()) {
    const { data, response } = await api
      .POST("/api/v1/allocations/{allocation_id}/heartbeat", {
        params: { path: { allocation_id: id } },
      })
      .catch(() => ({ data: undefined, response: undefined }));
    const hasEnded =
      response?.status === 404 ||
      (data && ["releasing", "released", "failed"].includes(data.state ?? ""));
    if (hasEnded) storeIds(storedIds().filter((h) => h !== id));
  }
}
window.setInterval(renewLeases, RENEWAL_MS);
