// Overview page: totals, capacity, and one bar per GPU.
import {
  Button,
  Card,
  CardBody,
  CardHeader,
  CardTitle,
  EmptyState,
  EmptyStateActions,
  EmptyStateBody,
  EmptyStateFooter,
  Flex,
  Gallery,
  PageSection,
  Title,
} from "@patternfly/react-core";
import PlusCircleIcon from "@patternfly/react-icons/dist/esm/icons/plus-circle-icon";
import { Link } from "@tanstack/react-router";
import { useState } from "react";
import { useDenied } from "../account/account";
import type { Gpu, Node } from "../api/client";
import { useLoaded, useRows } from "../api/queries";
import { AddNodeDialog } from "./AddNodeDialog";
import { CapacityCard } from "./CapacityCard";
import { AllocateDialog } from "../allocations/AllocateDialog";
import { gib } from "../format";
import { NodeState } from "./NodeState";
import { PartitionBar } from "./PartitionBar";
import { allocated, byIndex } from "./capacity";

function Tile({ value, text }: { value: string | number; text: string }) {
  return (
    <Card isCompact className="bb-figure">
      <CardBody>
        <span className="bb-figure__value">{value}</span>
        <span className="bb-quiet">{text}</span>
      </CardBody>
    </Card>
  );
}

function SummaryTiles({ nodes, gpus }: { nodes: Node[]; gpus: Gpu[] }) {
  const partitions = useRows("partition");
  const sessions = useRows("session");
  const queued = useRows("allocation").filter((a) => a.state === "queued").length;
  const present = gpus.filter((g) => g.present !== false);
  const total = allocated(partitions);
  const totalBytes = present.reduce((sum, g) => sum + g.memory_bytes, 0);
  const unreachable = nodes.filter((n) => !n.reachable).length;
  return (
    <Gallery hasGutter minWidths={{ default: "150px" }}>
      <Tile
        value={nodes.length}
        text={
          unreachable ? `nodes, ${unreachable} unreachable` : nodes.length === 1 ? "node" : "nodes"
        }
      />
      <Tile value={present.length} text="GPUs" />
      <Tile
        value={`${(total.percent / 100).toFixed(2)}`}
        text={`of ${present.length} GPUs allocated`}
      />
      <Tile value={gib(total.memory_bytes)} text={`of ${gib(totalBytes)} allocated`} />
      <Tile value={sessions.length} text="running programs" />
      <Tile value={queued} text="queued requests" />
    </Gallery>
  );
}

function NodeCard({ node, gpus }: { node: Node; gpus: Gpu[] }) {
  return (
    <Card>
      <CardHeader>
        <CardTitle component="h2">
          <Flex gap={{ default: "gapSm" }} alignItems={{ default: "alignItemsCenter" }}>
            <Link to="/nodes/$nodeId" params={{ nodeId: node.id }}>
              {node.name}
            </Link>
            <NodeState node={node} />
          </Flex>
        </CardTitle>
      </CardHeader>
      <CardBody>
        {gpus.map((g) => (
          <div key={g.id} className="bb-gpurow">
            <Link to="/gpus/$gpuId" params={{ gpuId: g.id }} className="bb-gpurow__name">
              GPU {g.index}
              <span className="bb-quiet">
                {g.model}, {gib(g.memory_bytes)}
              </span>
            </Link>
            <PartitionBar gpu={g} />
          </div>
        ))}
        {gpus.length === 0 && <p className="bb-quiet">The node has not reported GPUs yet.</p>}
      </CardBody>
    </Card>
  );
}

export function OverviewPage() {
  const [nodes, gpus] = [useRows("node"), useRows("gpu")];
  const loaded = [useLoaded("gpu"), useLoaded("node")].every(Boolean);
  const [dialog, setDialog] = useState<"allocate" | "node" | null>(null);
  const [noAllocation, noNode] = [useDenied("allocations.create"), useDenied("fleet.enrol")];
  const sorted = [...nodes].sort((a, b) => a.name.localeCompare(b.name));
  return (
    <>
      <PageSection>
        <Flex
          justifyContent={{ default: "justifyContentSpaceBetween" }}
          alignItems={{ default: "alignItemsCenter" }}
        >
          <Title headingLevel="h1">Overview</Title>
          <Flex gap={{ default: "gapSm" }}>
            <Button
              variant="secondary"
              isAriaDisabled={Boolean(noNode)}
              title={noNode}
              onClick={() => noNode || setDialog("node")}
            >
              Add node
            </Button>
            <Button
              variant="primary"
              icon={<PlusCircleIcon />}
              isAriaDisabled={Boolean(noAllocation)}
              title={noAllocation}
              onClick={() => noAllocation || setDialog("allocate")}
            >
              Allocate GPUs
            </Button>
          </Flex>
        </Flex>
      </PageSection>
      <PageSection className="bb-stack">
        <SummaryTiles nodes={nodes} gpus={gpus} />
        {gpus.length > 0 && <CapacityCard />}
        {sorted.map((n) => (
          <NodeCard
            key={n.id}
            node={n}
            gpus={gpus.filter((g) => g.node_id === n.id).sort(byIndex)}
          />
        ))}
        {loaded && nodes.length === 0 && (
          <EmptyState titleText="Add the first node" headingLevel="h2">
            <EmptyStateBody>
              A node is a server with GPUs. Busbar registers it over SSH; the machine needs no
              preparation.
            </EmptyStateBody>
            <EmptyStateFooter>
              <EmptyStateActions>
                <Button
                  variant="primary"
                  onClick={() => setDialog("node")}
                  isDisabled={Boolean(noNode)}
                >
                  Add node
                </Button>
              </EmptyStateActions>
              <code>busbar node add ssh://root@HOST</code>
            </EmptyStateFooter>
          </EmptyState>
        )}
      </PageSection>
      {dialog === "allocate" && <AllocateDialog onClose={() => setDialog(null)} />}
      {dialog === "node" && <AddNodeDialog onClose={() => setDialog(null)} />}
    </>
  );
}
