// Dialog that allocates GPUs. It shows where the request would go before anything is allocated.
import {
  Alert,
  Button,
  ClipboardCopy,
  ExpandableSection,
  Form,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  Spinner,
} from "@patternfly/react-core";
import { useMutation, useQuery } from "@tanstack/react-query";
import { Link } from "@tanstack/react-router";
import { useDeferredValue, useState } from "react";
import { change } from "../actions/change";
import { openDialog } from "../actions/dialogs";
import { type Allocation, api, idempotencyKey, unwrap } from "../api/client";
import { allocationsById } from "../api/indexes";
import { useRows } from "../api/queries";
import { allocationName, hasEnded } from "../model/allocationNames";
import {
  INITIAL,
  type Wanted,
  commandLine,
  curlLine,
  requestBody,
} from "../model/allocationRequest";
import { counted, t } from "../text/text";
import type { Field } from "../ui/fields";
import { messageFor, messageOf } from "../ui/refusal";
import { ALLOCATE_FIELDS, BasicFields, MoreFields } from "./AllocateFields";

export interface Preset {
  pool?: string;
  gpu?: string;
  percent?: number;
}

const copyTexts = () => ({ hoverTip: t("common.copy"), clickTip: t("common.copied") });

/** A dry run of the same request. */
function useDryRun(wanted: Wanted) {
  const settled = useDeferredValue(wanted);
  const body = requestBody(settled);
  return useQuery({
    queryKey: ["dry-run", body],
    queryFn: async () =>
      unwrap(
        await api.POST("/api/v1/allocations", { body, params: { query: { dry_run: true } } }),
      ) as Allocation,
    placeholderData: (before) => before,
    retry: false,
  });
}
type DryRun = ReturnType<typeof useDryRun>;

const Failure = ({ error }: { error: Error }) => (
  <Alert variant="danger" isInline component="p" title={messageOf(error, ALLOCATE_FIELDS)} />
);

/** What would happen now. */
function Preview({ outcome, gpuId }: { outcome: DryRun; gpuId: string | undefined }) {
  if (outcome.error) return <Failure error={outcome.error} />;
  if (!outcome.data) return <Spinner size="md" aria-label={t("state.loading")} />;
  const { partitions, waiting_reason: reason } = outcome.data;
  if (partitions.length === 0)
    return (
      <Alert variant="warning" isInline component="p" title={t("allocate.waits")}>
        {reason}
      </Alert>
    );
  const places = partitions.map((p) => `${p.node} GPU ${p.gpu_index}`).join(", ");
  const elsewhere = gpuId && !partitions.some((p) => p.gpu_id === gpuId);
  return (
    <Alert variant="success" isInline component="p" title={t("allocate.fits", { places })}>
      {elsewhere && t("allocate.elsewhere")}
    </Alert>
  );
}

function Result({ created, onClose }: { created: Allocation; onClose: () => void }) {
  const current = allocationsById(useRows("allocation")).get(created.id) ?? created;
  if (hasEnded(current))
    return (
      <Alert
        variant="danger"
        isInline
        component="p"
        title={t("allocate.ended", { reason: current.end_reason || current.state || "" })}
      />
    );
  const places = current.partitions.map((p) => `GPU ${p.gpu_index} of ${p.node}`).join(", ");
  return (
    <div className="bb-stack">
      <Alert
        variant={current.state === "active" ? "success" : "info"}
        isInline
        component="p"
        title={
          current.state === "active"
            ? t("allocate.active", { places })
            : `${t("allocationState.queued")}: ${current.waiting_reason ?? ""}`
        }
      />
      <p>{t("allocate.runIt")}</p>
      <ClipboardCopy isReadOnly {...copyTexts()} textAriaLabel={t("common.command")}>
        {`busbar allocation attach ${current.id} -- python train.py`}
      </ClipboardCopy>
      <p>
        <Link to={`/allocations/${current.id}`} onClick={onClose}>
          {t("action.open", { name: allocationName(current) })}
        </Link>
      </p>
    </div>
  );
}

/** The request in the making, which begins with the preset, and its submission. */
function useRequest(preset: Preset) {
  const gpu = useRows("gpu").find((g) => g.id === preset.gpu);
  const [wanted, setWanted] = useState<Wanted>({
    ...INITIAL,
    pool: preset.pool ?? INITIAL.pool,
    percent: preset.percent ? Math.min(preset.percent, 100) : INITIAL.percent,
    model: gpu?.model ?? "",
  });
  const create = useMutation({
    mutationFn: () =>
      change(t("allocate.sent", { gpus: counted("count.gpu", wanted.count) }), async () =>
        unwrap(
          await api.POST("/api/v1/allocations", {
            body: requestBody(wanted),
            headers: idempotencyKey(),
          }),
        ),
      ) as Promise<Allocation>,
  });
  const set = (fresh: Partial<Wanted>) => setWanted((old) => ({ ...old, ...fresh }));
  return { wanted, set, create };
}
type Request = ReturnType<typeof useRequest>;

/** The same as a command and as an API call. */
function SameRequest({ wanted }: { wanted: Wanted }) {
  return (
    <ExpandableSection toggleText={t("allocate.same")}>
      <div className="bb-stack">
        <ClipboardCopy isReadOnly {...copyTexts()} textAriaLabel={t("common.command")}>
          {commandLine(wanted)}
        </ClipboardCopy>
        <ClipboardCopy isReadOnly isCode {...copyTexts()} textAriaLabel={t("common.apiCall")}>
          {curlLine(wanted, location.origin)}
        </ClipboardCopy>
      </div>
    </ExpandableSection>
  );
}

function RequestForm({ request, gpuId }: { request: Request; gpuId: string | undefined }) {
  const { wanted, set, create } = request;
  const [more, setMore] = useState(false);
  const outcome = useDryRun(wanted);
  const errorOf = (field: Field) => messageFor(outcome.error, field);
  return (
    <Form
      id="allocate"
      onSubmit={(e) => {
        e.preventDefault();
        create.mutate();
      }}
    >
      {create.error && <Failure error={create.error} />}
      <BasicFields {...{ wanted, set, errorOf }} />
      <ExpandableSection
        toggleText={t("allocate.more")}
        isExpanded={more}
        onToggle={(_, on) => setMore(on)}
      >
        <MoreFields {...{ wanted, set, errorOf }} />
      </ExpandableSection>
      <Preview outcome={outcome} gpuId={gpuId} />
      <SameRequest wanted={wanted} />
    </Form>
  );
}

function AllocateDialog({ onClose, preset }: { onClose: () => void; preset: Preset }) {
  const request = useRequest(preset);
  const { create } = request;
  return (
    <Modal isOpen variant="medium" onClose={onClose} aria-labelledby="allocate-title">
      <ModalHeader title={t("action.allocate")} labelId="allocate-title" />
      <ModalBody tabIndex={0}>
        {create.data ? (
          <Result created={create.data} onClose={onClose} />
        ) : (
          <RequestForm request={request} gpuId={preset.gpu} />
        )}
      </ModalBody>
      <ModalFooter>
        {!create.data && (
          <Button
            variant="primary"
            type="submit"
            form="allocate"
            isLoading={create.isPending}
            isDisabled={create.isPending}
          >
            {t("allocate.verb")}
          </Button>
        )}
        <Button variant={create.data ? "primary" : "link"} onClick={onClose}>
          {create.data ? t("common.close") : t("common.cancel")}
        </Button>
      </ModalFooter>
    </Modal>
  );
}

export const openAllocate = (preset: Preset = {}) =>
  openDialog((close) => <AllocateDialog onClose={close} preset={preset} />);
