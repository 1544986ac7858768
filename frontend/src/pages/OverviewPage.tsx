// Overview: figures that lead to their pages, capacity, queue, and the GPUs of each node.
import { Button, Card, CardBody, Flex, Gallery, PageSection } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";
import { AllocateButton } from "../allocations/AllocateButton";
import type { Gpu, Node } from "../api/client";
import { gpusByNode } from "../api/indexes";
import { useRows } from "../api/queries";
import { openAddNode } from "../inventory/AddNodeDialog";
import { CapacityCard } from "../inventory/CapacityCard";
import { GpuRow } from "../inventory/GpuRow";
import { NodeState } from "../inventory/NodeState";
import { allocated } from "../inventory/capacity";
import { isCapacity } from "../inventory/gpuState";
import { useDenied } from "../model/account";
import { gpuCount, gib } from "../model/format";
import { counted, t } from "../text/text";
import { DeniedButton } from "../ui/DeniedButton";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Loaded, Permitted, StateBlock } from "../ui/states";

/** With more nodes the fleet page is the better view. */
const MAX_NODE_CARDS = 8;

function Tile({ value, text, to }: { value: string | number; text: string; to: string }) {
  return (
    <Card isCompact className="bb-figure">
      <CardBody>
        <Link to={to} className="bb-figure__link">
          <span className="bb-figure__value">{value}</span>
          <span className="bb-quiet">{text}</span>
        </Link>
      </CardBody>
    </Card>
  );
}

function Tiles({ nodes, gpus }: { nodes: Node[]; gpus: Gpu[] }) {
  const partitions = useRows("partition");
  const sessions = useRows("session");
  const queued = useRows("allocation").filter((a) => a.state === "queued").length;
  const present = gpus.filter(isCapacity);
  const total = allocated(partitions);
  const totalBytes = present.reduce((sum, g) => sum + g.memory_bytes, 0);
  const bad = nodes.filter((n) => !n.reachable).length;
  const nodesText = counted("overview.nodes", nodes.length);
  return (
    <Gallery hasGutter minWidths={{ default: "150px" }}>
      <Tile
        value={nodes.length}
        text={bad ? t("overview.unreachable", { nodes: nodesText, count: bad }) : nodesText}
        to="/fleet"
      />
      <Tile value={present.length} text={counted("overview.gpus", present.length)} to="/fleet" />
      <Tile
        value={gpuCount(total.percent / 100)}
        text={t("overview.allocated", { total: counted("count.gpu", present.length) })}
        to="/allocations"
      />
      <Tile
        value={gib(total.memory_bytes)}
        text={t("overview.allocated", { total: gib(totalBytes) })}
        to="/allocations"
      />
      <Permitted kind="session">
        <Tile
          value={sessions.length}
          text={counted("overview.programs", sessions.length)}
          to="/allocations"
        />
      </Permitted>
      <Permitted kind="allocation">
        <Tile value={queued} text={counted("overview.queued", queued)} to="/allocations" />
      </Permitted>
    </Gallery>
  );
}

function NodePanel({ node, gpus }: { node: Node; gpus: Gpu[] }) {
  return (
    <Card>
      <CardBody>
        <Flex
          gap={{ default: "gapSm" }}
          alignItems={{ default: "alignItemsCenter" }}
          className="bb-nodehead"
        >
          <h2 className="pf-v6-c-card__title-text">
            <Link to={`/nodes/${node.id}`}>{node.name}</Link>
          </h2>
          <NodeState node={node} />
        </Flex>
        <div className={node.reachable ? "" : "bb-stale"}>
          {gpus.map((g) => (
            <GpuRow key={g.id} gpu={g} />
          ))}
        </div>
        {gpus.length === 0 && <p className="bb-quiet">{t("node.noGpus")}</p>}
      </CardBody>
    </Card>
  );
}

function AddNodeButton({ isPrimary = false }: { isPrimary?: boolean }) {
  const denied = useDenied("fleet.enrol");
  return (
    <DeniedButton denied={denied}>
      <Button
        variant={isPrimary ? "primary" : "secondary"}
        isAriaDisabled={Boolean(denied)}
        onClick={() => denied || openAddNode()}
      >
        {t("action.addNode")}
      </Button>
    </DeniedButton>
  );
}

const FirstNode = () => (
  <StateBlock
    title={t("overview.first")}
    body={
      <>
        {t("overview.firstBody")} <code>busbar node add ssh://root@HOST</code>
      </>
    }
    action={<AddNodeButton isPrimary />}
  />
);

/** Return the nodes with a card: those in trouble come first where not all fit. */
function nodesWithCard(nodes: Node[]): Node[] {
  const sorted = [...nodes].sort((a, b) =>
    a.name.localeCompare(b.name, undefined, { numeric: true }),
  );
  if (sorted.length <= MAX_NODE_CARDS) return sorted;
  return sorted.sort((a, b) => Number(a.reachable) - Number(b.reachable)).slice(0, MAX_NODE_CARDS);
}

function Overview() {
  const [nodes, gpus] = [useRows("node"), useRows("gpu")];
  if (nodes.length === 0) return <FirstNode />;
  const groups = gpusByNode(gpus);
  const shown = nodesWithCard(nodes);
  return (
    <>
      <Tiles nodes={nodes} gpus={gpus} />
      {gpus.length > 0 && <CapacityCard />}
      {shown.map((n) => (
        <NodePanel
          key={n.id}
          node={n}
          gpus={[...(groups.get(n.id) ?? [])].sort((a, b) => a.index - b.index)}
        />
      ))}
      {nodes.length > shown.length && (
        <Panel title={counted("overview.more", nodes.length - shown.length)}>
          <Link to="/fleet">{t("overview.toFleet")}</Link>
        </Panel>
      )}
    </>
  );
}

export function OverviewPage() {
  return (
    <>
      <PageHeader
        title={t("nav.overview")}
        actions={
          <>
            <AddNodeButton />
            <AllocateButton />
          </>
        }
      />
      <PageSection className="bb-stack">
        <Loaded kinds={["node", "gpu", "partition"]} optional={["allocation", "session"]}>
          <Overview />
        </Loaded>
      </PageSection>
    </>
  );
}
