// Routes of the console. The URL holds the selection.
import { createRootRoute, createRoute, createRouter } from "@tanstack/react-router";
import { Shell } from "./Shell";
import { AllocationsPage } from "./allocations/AllocationsPage";
import { EventsPage } from "./tasks/EventsPage";
import { GpuPage } from "./inventory/GpuPage";
import { NodePage } from "./inventory/NodePage";
import { OverviewPage } from "./inventory/OverviewPage";
import { NotFound } from "./inventory/NotFound";

const root = createRootRoute({
  component: Shell,
  notFoundComponent: () => <NotFound what="Page" />,
});
const overview = createRoute({ getParentRoute: () => root, path: "/", component: OverviewPage });
const node = createRoute({
  getParentRoute: () => root,
  path: "/nodes/$nodeId",
  component: NodePage,
});
const gpu = createRoute({ getParentRoute: () => root, path: "/gpus/$gpuId", component: GpuPage });
const allocations = createRoute({
  getParentRoute: () => root,
  path: "/allocations",
  component: AllocationsPage,
});
const events = createRoute({ getParentRoute: () => root, path: "/events", component: EventsPage });

export const router = createRouter({
  routeTree: root.addChildren([overview, node, gpu, allocations, events]),
});

declare module "@tanstack/react-router" {
  interface Register {
    router: typeof router;
  }
}
