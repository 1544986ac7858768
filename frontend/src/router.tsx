// Routes of the console. The URL holds the selection. Pages are chunks of their own.
import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { Shell } from "./Shell";
import { OverviewPage } from "./inventory/OverviewPage";
import { t } from "./text/text";
import { lazyPage } from "./ui/lazyPage";
import { MissingPage } from "./ui/states";

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => <MissingPage what={t("state.page")} />,
});
type Load = Parameters<typeof lazyPage>[0];
const lazyRoute = <P extends string>(path: P, load: Load) =>
  createRoute({
    getParentRoute: () => root,
    path,
    component: lazyPage(load),
    validateSearch: (search: Record<string, unknown>): { tab?: string } =>
      typeof search.tab === "string" ? { tab: search.tab } : {},
  });

const routes = [
  createRoute({ getParentRoute: () => root, path: "/", component: OverviewPage }),
  lazyRoute("/nodes/$id", () => import("./inventory/NodePage")),
  lazyRoute("/gpus/$id", () => import("./inventory/GpuPage")),
  lazyRoute("/allocations", () => import("./allocations/AllocationsPage")),
  lazyRoute("/allocations/$id", () => import("./allocations/AllocationPage")),
  lazyRoute("/sessions/$id", () => import("./allocations/SessionPage")),
  lazyRoute("/pools", () => import("./admin/PoolsPage")),
  lazyRoute("/pools/$id", () => import("./admin/PoolPage")),
  lazyRoute("/projects/$id", () => import("./admin/ProjectPage")),
  lazyRoute("/departments/$id", () => import("./admin/DepartmentPage")),
  lazyRoute("/users/$id", () => import("./admin/UserPage")),
  lazyRoute("/groups/$id", () => import("./admin/GroupPage")),
  lazyRoute("/access", () => import("./admin/AccessPage")),
  lazyRoute("/settings", () => import("./admin/SettingsPage")),
  lazyRoute("/account", () => import("./account/AccountPage")),
  lazyRoute("/approve", () => import("./account/ApprovePage")),
  lazyRoute("/alarms", () => import("./alarms/AlarmsPage")),
  lazyRoute("/alarms/$id", () => import("./alarms/AlarmPage")),
  lazyRoute("/events", () => import("./tasks/EventsPage")),
  lazyRoute("/fleet", () => import("./fleet/FleetPage")),
  lazyRoute("/mine", () => import("./allocations/MyGpusPage")),
];

export const router = createRouter({ routeTree: root.addChildren(routes) });
