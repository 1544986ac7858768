// Dialog that registers a node over SSH: confirm the host key, then follow the task.
import {
  Alert,
  Button,
  Form,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  Progress,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { openDialog } from "../actions/dialogs";
import { Problem, type Task, api, idempotencyKey, unwrap } from "../api/client";
import { useRows } from "../api/queries";
import { t } from "../text/text";
import type { Field } from "../ui/fields";
import { messageFor, messageOf } from "../ui/refusal";
import {
  AddressFields,
  AsCommand,
  CredentialFields,
  INITIAL,
  NODE_FIELDS,
  type NodeAccess,
  SoftwareGpuField,
  isComplete,
} from "./AddNodeFields";

interface HostKey {
  sha256: string;
  type: string;
}
interface Check {
  check: string;
  state: string;
  found: string;
  fix: string;
}

function CheckTable({ checks }: { checks: Check[] }) {
  return (
    <Table variant="compact" aria-label={t("addNode.checks")}>
      <Thead>
        <Tr>
          <Th>{t("addNode.check")}</Th>
          <Th>{t("fleet.state")}</Th>
          <Th>{t("addNode.found")}</Th>
          <Th>{t("addNode.remedy")}</Th>
        </Tr>
      </Thead>
      <Tbody>
        {checks.map((c) => (
          <Tr key={c.check}>
            <Td>{c.check}</Td>
            <Td>{c.state}</Td>
            <Td>{c.found}</Td>
            <Td>{c.fix}</Td>
          </Tr>
        ))}
      </Tbody>
    </Table>
  );
}

function TaskProgress({ task }: { task: Task }) {
  const error = task.error as { detail?: string } | null;
  const checks = ((task.result ?? {}) as { preflight?: Check[] }).preflight ?? [];
  return (
    <>
      <Progress
        value={task.progress_percent}
        title={task.message}
        variant={
          task.state === "failed" ? "danger" : task.state === "succeeded" ? "success" : undefined
        }
      />
      {error?.detail && <Alert variant="danger" isInline title={error.detail} component="p" />}
      {checks.length > 0 && <CheckTable checks={checks} />}
    </>
  );
}

const isUnconfirmed = (problem: unknown): problem is Problem =>
  problem instanceof Problem && problem.code === "host_key_unconfirmed";

type NodeRequest = Record<string, string | number>;

const requestOf = (a: NodeAccess, hostKey: HostKey | null): NodeRequest => ({
  address: a.address,
  port: Number(a.port),
  username: a.username,
  ...(a.way === "key"
    ? { private_key: a.privateKey, passphrase: a.password }
    : { password: a.password }),
  software_gpus: a.softwareGpus,
  host_key_sha256: hostKey?.sha256 ?? "",
});

/** The registration: the first try reads the host key, the next one confirms it. */
function useRegistration() {
  const [access, setAccess] = useState(INITIAL);
  const [hostKey, setHostKey] = useState<HostKey | null>(null);
  const [taskId, setTaskId] = useState("");
  const task = useRows("task").find((row) => row.id === taskId);
  const submit = useMutation({
    mutationFn: async (body: NodeRequest) =>
      unwrap(
        await api.POST("/api/v1/nodes/enrol-ssh", {
          body: body as never,
          headers: idempotencyKey(),
        }),
      ),
    onSuccess: (started) => setTaskId(started.id),
    onError: (problem) => {
      if (!isUnconfirmed(problem)) return;
      const { host_key_sha256, host_key_type } = problem.fields;
      setHostKey({ sha256: String(host_key_sha256), type: String(host_key_type) });
    },
  });
  const put = (fresh: Partial<NodeAccess>) => {
    setAccess((old) => ({ ...old, ...fresh }));
    if ("address" in fresh || "port" in fresh) setHostKey(null);
  };
  const body = requestOf(access, hostKey);
  /** Return what is wrong with a field, until its value is changed. */
  const errorOf = (field: Field) =>
    body[field.name] === submit.variables?.[field.name] ? messageFor(submit.error, field) : "";
  const send = () => submit.mutate(body);
  return { access, put, hostKey, task, submit, send, errorOf, again: () => setTaskId("") };
}
type Registration = ReturnType<typeof useRegistration>;

function HostKeyAlert({ hostKey }: { hostKey: HostKey }) {
  return (
    <Alert
      variant="warning"
      isInline
      title={t("addNode.hostKey", { key: `${hostKey.type} SHA256:${hostKey.sha256}` })}
      component="p"
    >
      {t("addNode.compare")} <code>ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub</code>
    </Alert>
  );
}

function AccessForm({ access, put, hostKey, submit, send, errorOf }: Registration) {
  const { error } = submit;
  return (
    <Form
      id="add-node"
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
    >
      {error && !isUnconfirmed(error) && (
        <Alert variant="danger" isInline title={messageOf(error, NODE_FIELDS)} component="p" />
      )}
      {hostKey && <HostKeyAlert hostKey={hostKey} />}
      <AddressFields {...{ access, put, errorOf }} />
      <CredentialFields {...{ access, put, errorOf }} />
      <SoftwareGpuField {...{ access, put, errorOf }} />
      <AsCommand access={access} />
    </Form>
  );
}

function AddNodeDialog({ onClose }: { onClose: () => void }) {
  const registration = useRegistration();
  const { access, hostKey, task, submit, again } = registration;
  return (
    <Modal isOpen variant="medium" onClose={onClose} aria-labelledby="add-node-title">
      <ModalHeader
        title={t("action.addNode")}
        labelId="add-node-title"
        description={t("addNode.lead")}
      />
      <ModalBody>
        {task ? <TaskProgress task={task} /> : <AccessForm {...registration} />}
      </ModalBody>
      <ModalFooter>
        {!task && (
          <Button
            variant="primary"
            type="submit"
            form="add-node"
            isLoading={submit.isPending}
            isDisabled={submit.isPending || !isComplete(access)}
          >
            {t(hostKey ? "addNode.trust" : "addNode.connect")}
          </Button>
        )}
        {task?.state === "failed" && (
          <Button variant="secondary" onClick={again}>
            {t("addNode.again")}
          </Button>
        )}
        <Button variant={task ? "primary" : "link"} onClick={onClose}>
          {task ? t("common.close") : t("common.cancel")}
        </Button>
      </ModalFooter>
    </Modal>
  );
}

export const openAddNode = () => openDialog((close) => <AddNodeDialog onClose={close} />);
