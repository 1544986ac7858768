// Dialog that registers a node over SSH: confirm the host key, then follow the task.
import {
  Alert,
  Button,
  ClipboardCopy,
  Form,
  FormGroup,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  NumberInput,
  Progress,
  TextInput,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { Problem, type Task, api, idempotencyKey, unwrap } from "../api/client";
import { useRows } from "../api/queries";

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
      {checks.length > 0 && (
        <Table variant="compact" aria-label="Preflight checks">
          <Thead>
            <Tr>
              <Th>Check</Th>
              <Th>State</Th>
              <Th>Found</Th>
              <Th>Remedy</Th>
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
      )}
    </>
  );
}

export function AddNodeDialog({ onClose }: { onClose: () => void }) {
  const [address, setAddress] = useState("");
  const [port, setPort] = useState("22");
  const [username, setUsername] = useState("root");
  const [password, setPassword] = useState("");
  const [softwareGpus, setSoftwareGpus] = useState(0);
  const [hostKey, setHostKey] = useState<HostKey | null>(null);
  const [taskId, setTaskId] = useState("");
  const task = useRows("task").find((t) => t.id === taskId);
  const submit = useMutation({
    mutationFn: async () => {
      const body = {
        address,
        port: Number(port),
        username,
        password,
        software_gpus: softwareGpus,
        host_key_sha256: hostKey?.sha256 ?? "",
      };
      return unwrap(
        await api.POST("/api/v1/nodes/enrol-ssh", {
          body: body as never,
          headers: idempotencyKey(),
        }),
      );
    },
    onSuccess: (t) => {
      setPassword("");
      setTaskId(t.id);
    },
    onError: (problem) => {
      if (problem instanceof Problem && problem.code === "host_key_unconfirmed")
        setHostKey({
          sha256: String(problem.fields.host_key_sha256),
          type: String(problem.fields.host_key_type),
        });
    },
  });
  const changeTarget = (set: (value: string) => void, value: string) => {
    set(value);
    setHostKey(null);
  };
  const unconfirmed =
    submit.error instanceof Problem && submit.error.code === "host_key_unconfirmed";
  return (
    <Modal isOpen variant="medium" onClose={onClose} aria-labelledby="add-node-title">
      <ModalHeader
        title="Add node"
        labelId="add-node-title"
        description="The appliance provides the agent; the machine needs no internet access. Credentials are used once and never stored."
      />
      <ModalBody>
        {task ? (
          <TaskProgress task={task} />
        ) : (
          <Form
            id="add-node"
            onSubmit={(e) => {
              e.preventDefault();
              submit.mutate();
            }}
          >
            {submit.error && !unconfirmed && (
              <Alert variant="danger" isInline title={submit.error.message} component="p" />
            )}
            {hostKey && (
              <Alert
                variant="warning"
                isInline
                title={`Host key of the machine: ${hostKey.type} SHA256:${hostKey.sha256}`}
                component="p"
              >
                Compare it with the output on the machine:{" "}
                <code>ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub</code>
              </Alert>
            )}
            <FormGroup label="Address" fieldId="address" isRequired>
              <TextInput
                id="address"
                value={address}
                onChange={(_, v) => changeTarget(setAddress, v)}
                isRequired
                autoFocus
              />
            </FormGroup>
            <FormGroup label="SSH port" fieldId="port">
              <TextInput
                id="port"
                type="number"
                value={port}
                onChange={(_, v) => changeTarget(setPort, v)}
              />
            </FormGroup>
            <FormGroup label="User name" fieldId="node-user">
              <TextInput
                id="node-user"
                value={username}
                onChange={(_, v) => setUsername(v)}
                autoComplete="off"
              />
            </FormGroup>
            <FormGroup label="Password" fieldId="node-password" isRequired>
              <TextInput
                id="node-password"
                type="password"
                value={password}
                onChange={(_, v) => setPassword(v)}
                autoComplete="off"
                isRequired
              />
            </FormGroup>
            <FormGroup
              label="Software GPUs (for a machine without an NVIDIA driver)"
              fieldId="software-gpus"
            >
              <NumberInput
                id="software-gpus"
                value={softwareGpus}
                min={0}
                max={16}
                inputAriaLabel="Software GPUs"
                minusBtnAriaLabel="Fewer"
                plusBtnAriaLabel="More"
                onMinus={() => setSoftwareGpus(Math.max(0, softwareGpus - 1))}
                onPlus={() => setSoftwareGpus(Math.min(16, softwareGpus + 1))}
                onChange={(e) => setSoftwareGpus(Number((e.target as HTMLInputElement).value))}
              />
            </FormGroup>
            <FormGroup label="Equivalent command" fieldId="as-command">
              <ClipboardCopy isReadOnly hoverTip="Copy" clickTip="Copied" textAriaLabel="Command">
                {`busbar node add ssh://${username}@${address || "HOST"}${port === "22" ? "" : `:${port}`}${softwareGpus ? ` --software-gpus ${softwareGpus}` : ""}`}
              </ClipboardCopy>
            </FormGroup>
          </Form>
        )}
      </ModalBody>
      <ModalFooter>
        {!task && (
          <Button
            variant="primary"
            type="submit"
            form="add-node"
            isLoading={submit.isPending}
            isDisabled={submit.isPending || !address || !password}
          >
            {hostKey ? "Trust host key and add node" : "Connect"}
          </Button>
        )}
        <Button variant={task ? "primary" : "link"} onClick={onClose}>
          {task ? "Close" : "Cancel"}
        </Button>
      </ModalFooter>
    </Modal>
  );
}
