import {
  Breadcrumb,
  BreadcrumbItem,
  Card,
  CardBody,
  CardTitle,
  Flex,
  Label,
  PageSection,
  Title,
} from "@patternfly/react-core";
import { Link, useParams } from "@tanstack/react-router";
import { AllocationTable } from "../allocations/AllocationTable";
import { SessionTable } from "../allocations/SessionTable";
import { useLoaded, useRows } from "../api/queries";
import { gib } from "../format";
import { GpuCharts } from "./GpuCharts";
import { Properties } from "./NodePage";
import { NotFound } from "./NotFound";
import { PartitionBar } from "./PartitionBar";
import { allocated, partitionsOf } from "./capacity";

function linksText(links: Record<string, string>): string {
  return (
    Object.entries(links)
      .map(([index, way]) => `${index}: ${way}`)
      .join(", ") || "unknown"
  );
}

export function GpuPage() {
  const { gpuId } = useParams({ from: "/gpus/$gpuId" });
  const gpu = useRows("gpu").find((g) => g.id === gpuId);
  const partitions = useRows("partition");
  const allocations = useRows("allocation");
  const sessions = useRows("session");
  const loaded = useLoaded("gpu");
  if (!gpu) return loaded ? <NotFound what="GPU" /> : null;
  const ownPartitions = partitionsOf(gpu, partitions);
  const ids = new Set(ownPartitions.map((p) => p.allocation_id));
  const total = allocated(ownPartitions);
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
          <BreadcrumbItem
            render={({ className }) => (
              <Link className={className} to="/nodes/$nodeId" params={{ nodeId: gpu.node_id }}>
                {gpu.node}
              </Link>
            )}
          />
          <BreadcrumbItem isActive>GPU {gpu.index}</BreadcrumbItem>
        </Breadcrumb>
        <Flex gap={{ default: "gapMd" }} alignItems={{ default: "alignItemsCenter" }}>
          <Title headingLevel="h1">
            GPU {gpu.index} <span className="bb-quiet">{gpu.model}</span>
          </Title>
          {gpu.held && <Label status="warning">held</Label>}
          {gpu.present === false && <Label status="danger">missing</Label>}
        </Flex>
      </PageSection>
      <PageSection className="bb-stack">
        <Card>
          <CardTitle component="h2">
            Partitions{" "}
            <span className="bb-quiet">
              {total.percent} % allocated, {gib(gpu.memory_bytes - total.memory_bytes)} free
            </span>
          </CardTitle>
          <CardBody>
            <PartitionBar gpu={gpu} isTall />
          </CardBody>
        </Card>
        <GpuCharts gpu={gpu} />
        <AllocationTable
          allocations={allocations.filter((a) => ids.has(a.id))}
          title="Allocations on this GPU"
        />
        <SessionTable
          sessions={sessions.filter((s) => ids.has(s.allocation_id) && s.node === gpu.node)}
        />
        <Card>
          <CardTitle component="h2">Properties</CardTitle>
          <CardBody>
            <Properties
              properties={[
                ["UUID", <code key="uuid">GPU-{gpu.uuid}</code>],
                ["Memory", gib(gpu.memory_bytes)],
                ["Compute capability", gpu.compute_capability],
                ["PCI", gpu.pci_bus_id || "–"],
                ["Links to other GPUs", linksText(gpu.links)],
                ["MIG", gpu.mig ? "on (excluded from placement)" : "off"],
                ["Pool", gpu.pool ?? "none"],
                ["Notes", gpu.notes || "none"],
              ]}
            />
          </CardBody>
        </Card>
      </PageSection>
    </>
  );
}
