// Audit records with filters, details and the verification of their chain.
import {
  Alert,
  Button,
  FormSelect,
  FormSelectOption,
  Modal,
  ModalBody,
  ModalHeader,
  TextInput,
  Toolbar,
  ToolbarContent,
  ToolbarItem,
} from "@patternfly/react-core";
import { useInfiniteQuery, useMutation } from "@tanstack/react-query";
import { useMemo, useState } from "react";
import { openDialog } from "../actions/dialogs";
import { type Schema, api, unwrap } from "../api/client";
import { useAccount } from "../model/account";
import { dateTime, humanize } from "../model/format";
import { type Column, DataTable } from "../tables/DataTable";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { Properties } from "../ui/Properties";
import { ErrorState, ForbiddenState, LoadingState } from "../ui/states";

type AuditRecord = Schema<"AuditRecord">;
const PAGE = 200;

function Detail({ record: r, close }: { record: AuditRecord; close: () => void }) {
  return (
    <Modal isOpen variant="medium" onClose={close} aria-labelledby="audit-title">
      <ModalHeader
        title={humanize(r.action)}
        labelId="audit-title"
        description={dateTime(r.created_at)}
      />
      <ModalBody tabIndex={0}>
        <Properties
          properties={[
            [t("event.actor"), r.actor],
            [t("audit.token"), r.token_name],
            [t("audit.address"), r.address],
            [t("event.object"), `${r.object_kind ?? ""} ${r.object_name ?? ""}`],
            [t("audit.outcome"), `${r.outcome ?? ""} ${r.code ?? ""}`],
            [t("audit.request"), r.request_id],
            [t("audit.before"), <pre key="b">{JSON.stringify(r.before, null, 1)}</pre>],
            [t("audit.after"), <pre key="a">{JSON.stringify(r.after, null, 1)}</pre>],
          ]}
        />
      </ModalBody>
    </Modal>
  );
}

const COLUMNS: Column<AuditRecord>[] = [
  {
    id: "time",
    label: "event.time",
    value: (r) => r.created_at ?? "",
    cell: (r) => (
      <Button
        variant="link"
        isInline
        onClick={() => openDialog((close) => <Detail record={r} close={close} />)}
      >
        {dateTime(r.created_at)}
      </Button>
    ),
  },
  { id: "actor", label: "event.actor", value: (r) => r.actor },
  { id: "action", label: "audit.action", value: (r) => humanize(r.action) },
  {
    id: "object",
    label: "event.object",
    value: (r) => `${r.object_kind ?? ""} ${r.object_name ?? ""}`.trim(),
  },
  {
    id: "outcome",
    label: "audit.outcome",
    value: (r) =>
      r.outcome === "refused" ? t("audit.refused", { code: r.code ?? "" }) : t("audit.succeeded"),
  },
  { id: "address", label: "audit.address", value: (r) => r.address ?? "" },
];

type Verification = Schema<"Verification">;

const verdict = ({ problem, sequence, newest_sequence }: Verification) =>
  problem
    ? t("audit.broken", { sequence: problem.sequence, reason: problem.reason })
    : t("audit.intact", { sequence: sequence ?? 0, newest: newest_sequence ?? 0 });

function Verify() {
  const check = useMutation({
    mutationFn: () => api.GET("/api/v1/audit/verification", { params: { query: {} } }).then(unwrap),
  });
  const found = check.data;
  return (
    <>
      <Button variant="secondary" isLoading={check.isPending} onClick={() => check.mutate()}>
        {t("audit.verify")}
      </Button>
      {(found || check.error) && (
        <Alert
          isInline
          isPlain
          component="p"
          variant={check.error || found?.problem ? "danger" : "success"}
          title={check.error?.message ?? (found ? verdict(found) : "")}
        />
      )}
    </>
  );
}

interface AuditFilter {
  actor: string;
  outcome: string;
}

function useAudit({ actor, outcome }: AuditFilter, mayRead: boolean) {
  const filter = useMemo(
    () => ({ ...(actor ? { actor } : {}), ...(outcome ? { outcome: outcome as "refused" } : {}) }),
    [actor, outcome],
  );
  return useInfiniteQuery({
    queryKey: ["list", "audit", filter],
    queryFn: ({ pageParam }) =>
      api
        .GET("/api/v1/audit", {
          params: {
            query: { ...filter, limit: PAGE, ...(pageParam ? { cursor: pageParam } : {}) },
          },
        })
        .then(unwrap),
    initialPageParam: "",
    getNextPageParam: (page) => page.next ?? undefined,
    enabled: mayRead,
  });
}

interface FilterProps {
  filter: AuditFilter;
  put: (fresh: Partial<AuditFilter>) => void;
}

function FilterBar({ filter, put }: FilterProps) {
  return (
    <Toolbar inset={{ default: "insetNone" }} className="bb-toolbar">
      <ToolbarContent>
        <ToolbarItem>
          <TextInput
            aria-label={t("event.actor")}
            placeholder={t("event.actor")}
            value={filter.actor}
            onChange={(_, actor) => put({ actor })}
          />
        </ToolbarItem>
        <ToolbarItem>
          <FormSelect
            aria-label={t("audit.outcome")}
            value={filter.outcome}
            onChange={(_, outcome) => put({ outcome })}
          >
            <FormSelectOption value="" label={t("audit.outcome")} />
            <FormSelectOption value="succeeded" label={t("audit.succeeded")} />
            <FormSelectOption value="refused" label={t("audit.refused", { code: "" })} />
          </FormSelect>
        </ToolbarItem>
      </ToolbarContent>
    </Toolbar>
  );
}

export function AuditPane() {
  const { me } = useAccount();
  const [filter, setFilter] = useState<AuditFilter>({ actor: "", outcome: "" });
  const mayRead = me.privileges.includes("audit.read");
  const audit = useAudit(filter, mayRead);
  if (!mayRead) return <ForbiddenState privilege="audit.read" />;
  return (
    <Panel title={t("access.audit")} actions={<Verify />}>
      <FilterBar filter={filter} put={(fresh) => setFilter((old) => ({ ...old, ...fresh }))} />
      {audit.data ? (
        <DataTable
          table="audit"
          label={t("access.audit")}
          rows={audit.data.pages.flatMap((p) => p.items)}
          columns={COLUMNS}
        />
      ) : audit.error ? (
        <ErrorState error={audit.error} retry={() => void audit.refetch()} />
      ) : (
        <LoadingState />
      )}
      {audit.hasNextPage && (
        <Button
          variant="link"
          isLoading={audit.isFetchingNextPage}
          onClick={() => void audit.fetchNextPage()}
        >
          {t("audit.older")}
        </Button>
      )}
    </Panel>
  );
}
