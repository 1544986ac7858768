// Routes of the console. The URL holds the selection. Pages are chunks of their own.
import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { Shell } from "./Shell";
import { OverviewPage } from "./pages/OverviewPage";
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
  lazyRoute("/nodes/$id", () => import("./pages/NodePage")),
  lazyRoute("/gpus/$id", () => import("./pages/GpuPage")),
  lazyRoute("/allocations", () => import("./pages/AllocationsPage")),
  lazyRoute("/allocations/$id", () => import("./pages/AllocationPage")),
  lazyRoute("/sessions/$id", () => import("./pages/SessionPage")),
  lazyRoute("/pools", () => import("./pages/PoolsPage")),
  lazyRoute("/pools/$id", () => import("./pages/PoolPage")),
  lazyRoute("/projects/$id", () => import("./pages/ProjectPage")),
  lazyRoute("/departments/$id", () => import("./pages/DepartmentPage")),
  lazyRoute("/users/$id", () => import("./pages/UserPage")),
  lazyRoute("/groups/$id", () => import("./pages/GroupPage")),
  lazyRoute("/access", () => import("./pages/AccessPage")),
  lazyRoute("/settings", () => import("./pages/SettingsPage")),
  lazyRoute("/account", () => import("./pages/AccountPage")),
  lazyRoute("/approve", () => import("./pages/ApprovePage")),
  lazyRoute("/alarms", () => import("./pages/AlarmsPage")),
  lazyRoute("/alarms/$id", () => import("./pages/AlarmPage")),
  lazyRoute("/events", () => import("./pages/EventsPage")),
  lazyRoute("/fleet", () => import("./pages/FleetPage")),
  lazyRoute("/mine", () => import("./pages/MyGpusPage")),
];

export const router = createRouter({ routeTree: root.addChildren(routes) });
