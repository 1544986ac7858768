import { Alert, Button, Card, CardBody, CardTitle, Label } from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useMutation } from "@tanstack/react-query";
import { useAccount, useDenied } from "../account/account";
import { type Allocation, api, unwrap } from "../api/client";
import { dateTime } from "../format";

const STATUS = {
  active: "success",
  preparing: "info",
  queued: "warning",
  suspended: "warning",
  failed: "danger",
} as const;

export function AllocationState({ state }: { state: string }) {
  const status = STATUS[state as keyof typeof STATUS];
  return (
    <Label isCompact {...(status ? { status } : { color: "grey" })}>
      {state}
    </Label>
  );
}

function ReleaseButton({ allocation: a }: { allocation: Allocation }) {
  const { me } = useAccount();
  const cannotManage = useDenied("allocations.manage");
  const denied =
    a.owner === me.username
      ? ""
      : cannotManage && "Only the owner or an operator can release this allocation.";
  const release = useMutation({
    mutationFn: async () =>
      unwrap(
        await api.DELETE("/api/v1/allocations/{allocation_id}", {
          params: { path: { allocation_id: a.id } },
        }),
      ),
  });
  if (["releasing", "released", "failed"].includes(a.state ?? "")) return null;
  return (
    <>
      <Button
        variant="link"
        isInline
        isLoading={release.isPending}
        isAriaDisabled={Boolean(denied) || release.isPending}
        title={denied}
        aria-label={`Release ${a.name || a.id}`}
        onClick={() => denied || release.mutate()}
      >
        Release
      </Button>
      {release.error && (
        <Alert variant="danger" isInline isPlain title={release.error.message} component="p" />
      )}
    </>
  );
}

export function AllocationTable({
  allocations,
  title,
}: {
  allocations: Allocation[];
  title: string;
}) {
  return (
    <Card>
      <CardTitle component="h2">{title}</CardTitle>
      <CardBody>
        {allocations.length === 0 ? (
          <p className="bb-quiet">None.</p>
        ) : (
          <Table variant="compact" aria-label={title}>
            <Thead>
              <Tr>
                <Th>Name</Th>
                <Th>State</Th>
                <Th>Owner</Th>
                <Th>Requested</Th>
                <Th>Where</Th>
                <Th>Since</Th>
                <Th screenReaderText="Actions" />
              </Tr>
            </Thead>
            <Tbody>
              {allocations.map((a) => (
                <Tr key={a.id}>
                  <Td dataLabel="Name">{a.name || a.id.slice(-8)}</Td>
                  <Td dataLabel="State">
                    <AllocationState state={a.state ?? ""} />
                  </Td>
                  <Td dataLabel="Owner">{a.owner}</Td>
                  <Td dataLabel="Requested">
                    {a.gpu_count} × {a.percent} % of {a.pool}
                  </Td>
                  <Td dataLabel="Where">
                    {a.partitions.map((p) => `${p.node} GPU ${p.gpu_index}`).join(", ") ||
                      a.end_reason ||
                      a.waiting_reason}
                  </Td>
                  <Td dataLabel="Since">{dateTime(a.created_at)}</Td>
                  <Td isActionCell>
                    <ReleaseButton allocation={a} />
                  </Td>
                </Tr>
              ))}
            </Tbody>
          </Table>
        )}
      </CardBody>
    </Card>
  );
}
