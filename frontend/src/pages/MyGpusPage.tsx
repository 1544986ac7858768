// My GPUs: what the user holds and uses, what waits and why, and commands to paste.
import { Alert, Card, CardBody, ClipboardCopy, Gallery, PageSection } from "@patternfly/react-core";
import { Link } from "@tanstack/react-router";
import { AllocateButton } from "../allocations/AllocateButton";
import { AllocationState, AllocationTable, placeText } from "../allocations/AllocationTable";
import { ReleaseButton } from "../allocations/ReleaseButton";
import type { Allocation } from "../api/client";
import { sessionsByAllocation } from "../api/indexes";
import { useRows } from "../api/queries";
import { PartitionBar } from "../inventory/PartitionBar";
import { useAccount } from "../model/account";
import { gib, gpuCount } from "../model/format";
import { allocationName, hasEnded, requestText } from "../model/allocationNames";
import { type Key, t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Loaded, StateBlock } from "../ui/states";

function Figure({ value, label }: { value: string | number; label: Key }) {
  return (
    <Card isCompact className="bb-figure">
      <CardBody>
        <span className="bb-figure__value">{value}</span>
        <span className="bb-quiet">{t(label)}</span>
      </CardBody>
    </Card>
  );
}

function Paste({ label, command }: { label: string; command: string }) {
  return (
    <div className="bb-paste">
      <span className="bb-quiet">{label}</span>
      <ClipboardCopy
        isReadOnly
        isCode
        hoverTip={t("common.copy")}
        clickTip={t("common.copied")}
        textAriaLabel={label}
      >
        {command}
      </ClipboardCopy>
    </div>
  );
}

function Commands({ id }: { id: string }) {
  const attach = id ? `busbar allocation attach ${id} --` : "busbar run -p 25 --";
  return (
    <div className="bb-stack">
      <Paste label={t("mine.terminal")} command={`${attach} python train.py`} />
      <Paste label={t("mine.jupyter")} command={`${attach} jupyter lab`} />
      <Paste label={t("mine.vscode")} command={`${attach} code --wait .`} />
      <p className="bb-quiet">{t("mine.vscodeHelp")}</p>
    </div>
  );
}

function Held({ allocation: a }: { allocation: Allocation }) {
  const gpus = useRows("gpu");
  return (
    <Panel
      title={allocationName(a)}
      detail={requestText(a)}
      actions={
        <>
          <AllocationState state={a.state ?? ""} /> <ReleaseButton allocation={a} />{" "}
          <Link to={`/allocations/${a.id}`}>{t("mine.open")}</Link>
        </>
      }
    >
      {a.state === "queued" && (
        <Alert variant="warning" isInline component="p" title={placeText(a)} />
      )}
      {a.partitions.map((p) => {
        const gpu = gpus.find((g) => g.id === p.gpu_id);
        return (
          gpu && (
            <div className="bb-gpurow" key={p.id}>
              <Link to={`/gpus/${gpu.id}`} className="bb-gpurow__name">
                {gpu.node} GPU {gpu.index} <span className="bb-quiet">{gpu.model}</span>
              </Link>
              <PartitionBar gpu={gpu} />
            </div>
          )
        );
      })}
      {(a.state === "active" || a.state === "suspended") && <Commands id={a.id} />}
    </Panel>
  );
}

function Mine() {
  const { me } = useAccount();
  const own = useRows("allocation").filter((a) => a.owner === me.username);
  const sessions = sessionsByAllocation(useRows("session"));
  const current = own.filter((a) => !hasEnded(a));
  const partitions = current.flatMap((a) => a.partitions);
  const programs = current.flatMap((a) => sessions.get(a.id) ?? []);
  const given = partitions.reduce((sum, p) => sum + p.memory_bytes, 0);
  const used = programs.reduce((sum, s) => sum + (s.memory_bytes ?? 0), 0);
  const share = partitions.reduce((sum, p) => sum + p.compute_percent, 0) / 100;
  return (
    <>
      <Gallery hasGutter minWidths={{ default: "150px" }}>
        <Figure value={gpuCount(share)} label="mine.held" />
        <Figure value={`${gib(used)} / ${gib(given)}`} label="mine.used" />
        <Figure value={programs.length} label="mine.programs" />
        <Figure value={current.filter((a) => a.state === "queued").length} label="mine.queued" />
      </Gallery>
      {current.length === 0 && (
        <Panel title={t("mine.empty")}>
          <StateBlock
            level="h3"
            title={t("mine.emptyTitle")}
            body={t("mine.emptyBody")}
            action={<AllocateButton />}
          />
          <Commands id="" />
        </Panel>
      )}
      {current.map((a) => (
        <Held key={a.id} allocation={a} />
      ))}
      <AllocationTable title={t("mine.history")} allocations={own.filter(hasEnded)} />
    </>
  );
}

export default function MyGpusPage() {
  return (
    <>
      <PageHeader title={t("nav.mine")} detail={t("mine.lead")} actions={<AllocateButton />} />
      <PageSection className="bb-stack">
        <Loaded kinds={["allocation", "session", "gpu", "partition"]}>
          <Mine />
        </Loaded>
      </PageSection>
    </>
  );
}
