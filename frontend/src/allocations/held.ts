// Allocations made here are held by this page: a heartbeat each, as long as it is open. Kept in the tab, so that a reload goes on.
import { api } from "../api/client";

const KEY = "busbar.held";
const HEARTBEAT_MS = 8_000;

const read = (): string[] => JSON.parse(sessionStorage.getItem(KEY) ?? "[]") as string[];
const write = (ids: string[]) => sessionStorage.setItem(KEY, JSON.stringify(ids));

export const hold = (id: string) => write([...read(), id]);
export const isHeld = (id: string) => read().includes(id);

async function beat() {
  for (const id of read()) {
    const { data, response } = await api
      .POST("/api/v1/allocations/{allocation_id}/heartbeat", { params: { path: { allocation_id: id } } })
      .catch(() => ({ data: undefined, response: undefined }));
    const over = response?.status === 404 || (data && ["releasing", "released", "failed"].includes(data.state ?? ""));
    if (over) write(read().filter((h) => h !== id));
  }
}
window.setInterval(beat, HEARTBEAT_MS);
