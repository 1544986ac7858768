// Main pages in the order of the navigation, with the privilege that makes them useful.
import type { Me } from "../api/client";
import type { Key } from "../text/text";

export interface MainPage {
  to: string;
  label: Key;
  privilege?: string;
}
const PAGES: readonly MainPage[] = [
  { to: "/", label: "nav.overview" },
  { to: "/mine", label: "nav.mine", privilege: "allocations.create" },
  { to: "/fleet", label: "nav.fleet" },
  { to: "/allocations", label: "nav.allocations" },
  { to: "/pools", label: "nav.pools", privilege: "pools.view" },
  { to: "/alarms", label: "nav.alarms", privilege: "alarms.view" },
  { to: "/events", label: "nav.events" },
  { to: "/access", label: "nav.access" },
  { to: "/settings", label: "nav.settings" },
];
export const visiblePages = (me: Me) =>
  PAGES.filter((p) => !p.privilege || me.privileges.includes(p.privilege));
