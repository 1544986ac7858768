import {
  Breadcrumb,
  BreadcrumbItem,
  Button,
  Card,
  CardBody,
  CardTitle,
  DescriptionList,
  DescriptionListDescription,
  DescriptionListGroup,
  DescriptionListTerm,
  Flex,
  PageSection,
  Tab,
  TabTitleText,
  Tabs,
  Title,
} from "@patternfly/react-core";
import { useMutation } from "@tanstack/react-query";
import { Link, useParams } from "@tanstack/react-router";
import { type ReactNode, useState } from "react";
import { useDenied } from "../account/account";
import { type Node, api, unwrap } from "../api/client";
import { useLoaded, useRows } from "../api/queries";
import { SessionTable } from "../allocations/SessionTable";
import { EventTable } from "../tasks/EventTable";
import { dateTime } from "../format";
import { GpuCharts } from "./GpuCharts";
import { NodeState } from "./NodeState";
import { NotFound } from "./NotFound";
import { PartitionBar } from "./PartitionBar";
import { byIndex } from "./capacity";

export function Properties({ properties }: { properties: [string, ReactNode][] }) {
  return (
    <DescriptionList isHorizontal isCompact columnModifier={{ default: "1Col", xl: "2Col" }}>
      {properties.map(([term, value]) => (
        <DescriptionListGroup key={term}>
          <DescriptionListTerm>{term}</DescriptionListTerm>
          <DescriptionListDescription>{value}</DescriptionListDescription>
        </DescriptionListGroup>
      ))}
    </DescriptionList>
  );
}

function CordonButton({ node }: { node: Node }) {
  const denied = useDenied("inventory.manage");
  const cordoned = node.state === "cordoned";
  const change = useMutation({
    mutationFn: async () =>
      unwrap(
        await api.POST(`/api/v1/nodes/{node_id}/${cordoned ? "uncordon" : "cordon"}`, {
          params: { path: { node_id: node.id } },
        }),
      ),
  });
  return (
    <Button
      variant="secondary"
      isLoading={change.isPending}
      isAriaDisabled={Boolean(denied) || change.isPending}
      title={
        denied ||
        (cordoned ? "Allow new allocations" : "Exclude from placement; existing allocations stay")
      }
      onClick={() => denied || change.mutate()}
    >
      {cordoned ? "Uncordon" : "Cordon"}
    </Button>
  );
}

function Summary({ node }: { node: Node }) {
  const gpus = useRows("gpu")
    .filter((g) => g.node_id === node.id)
    .sort(byIndex);
  return (
    <>
      <Card>
        <CardTitle component="h2">GPUs</CardTitle>
        <CardBody>
          {gpus.map((g) => (
            <div key={g.id} className="bb-gpurow">
              <Link to="/gpus/$gpuId" params={{ gpuId: g.id }} className="bb-gpurow__name">
                GPU {g.index}
                <span className="bb-quiet">{g.model}</span>
              </Link>
              <PartitionBar gpu={g} />
            </div>
          ))}
        </CardBody>
      </Card>
      <Card>
        <CardTitle component="h2">Properties</CardTitle>
        <CardBody>
          <Properties
            properties={[
              [
                "Data plane",
                node.endpoints
                  .map(
                    (e) =>
                      `${e.address}:${e.port}${e.network === "default" ? "" : ` (${e.network})`}`,
                  )
                  .join(", ") || "–",
              ],
              ["Driver", node.software ? "software GPUs (no NVIDIA driver)" : node.driver_version],
              ["CUDA", node.cuda_version ? `up to ${node.cuda_version}` : "–"],
              [
                "Agent",
                node.agent_outdated
                  ? `${node.agent_version}; the appliance has a newer version`
                  : node.agent_version,
              ],
              ["Site", node.site ?? "none"],
              ["Notes", node.notes || "none"],
              ["System", node.operating_system],
              ["Isolation", node.isolation],
              ["Last seen", dateTime(node.last_seen_at)],
              ["Since", dateTime(node.created_at)],
              [
                "Desired state",
                `generation ${node.generation}, applied ${node.applied_generation}`,
              ],
              [
                "Labels",
                Object.entries((node.labels ?? {}) as Record<string, string>)
                  .map(([k, v]) => `${k}=${v}`)
                  .join(", ") || "none",
              ],
            ]}
          />
        </CardBody>
      </Card>
    </>
  );
}

export function NodePage() {
  const { nodeId } = useParams({ from: "/nodes/$nodeId" });
  const node = useRows("node").find((n) => n.id === nodeId);
  const gpus = useRows("gpu").filter((g) => g.node_id === nodeId);
  const sessions = useRows("session");
  const events = useRows("event");
  const loaded = useLoaded("node");
  const [tab, setTab] = useState<string | number>("summary");
  if (!node) return loaded ? <NotFound what="Node" /> : null;
  return (
    <>
      <PageSection>
        <Breadcrumb>
          <BreadcrumbItem
            render={({ className }) => (
              <Link className={className} to="/">
                Nodes
              </Link>
            )}
          />
          <BreadcrumbItem isActive>{node.name}</BreadcrumbItem>
        </Breadcrumb>
        <Flex
          justifyContent={{ default: "justifyContentSpaceBetween" }}
          alignItems={{ default: "alignItemsCenter" }}
        >
          <Flex gap={{ default: "gapMd" }} alignItems={{ default: "alignItemsCenter" }}>
            <Title headingLevel="h1">{node.name}</Title>
            <NodeState node={node} />
          </Flex>
          <CordonButton node={node} />
        </Flex>
      </PageSection>
      <PageSection>
        <Tabs
          activeKey={tab}
          onSelect={(_, key) => setTab(key)}
          mountOnEnter
          unmountOnExit
          aria-label="Node"
        >
          <Tab eventKey="summary" title={<TabTitleText>Summary</TabTitleText>}>
            <div className="bb-stack bb-tab">
              <Summary node={node} />
            </div>
          </Tab>
          <Tab eventKey="monitor" title={<TabTitleText>Monitor</TabTitleText>}>
            <div className="bb-stack bb-tab">
              {gpus.sort(byIndex).map((g) => (
                <GpuCharts key={g.id} gpu={g} />
              ))}
              <SessionTable sessions={sessions.filter((x) => x.node === node.name)} />
            </div>
          </Tab>
          <Tab eventKey="events" title={<TabTitleText>Events</TabTitleText>}>
            <div className="bb-stack bb-tab">
              <EventTable events={events.filter((e) => e.path.includes(node.id))} />
            </div>
          </Tab>
        </Tabs>
      </PageSection>
    </>
  );
}
