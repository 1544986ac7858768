// Dialog that registers a node over SSH: confirm the host key, then follow the task.
import {
  Alert,
  Button,
  ClipboardCopy,
  Form,
  FormGroup,
  FormSelect,
  FormSelectOption,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  NumberInput,
  Progress,
  TextArea,
  TextInput,
} from "@patternfly/react-core";
import { Table, Tbody, Td, Th, Thead, Tr } from "@patternfly/react-table";
import { useMutation } from "@tanstack/react-query";
import { useState } from "react";
import { openDialog } from "../actions/dialogs";
import { Problem, type Task, api, idempotencyKey, unwrap } from "../api/client";
import { useRows } from "../api/queries";
import { shellLine } from "../model/shellLine";
import { t } from "../text/text";

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
      )}
    </>
  );
}

function AddNodeDialog({ onClose }: { onClose: () => void }) {
  const [address, setAddress] = useState("");
  const [port, setPort] = useState("22");
  const [username, setUsername] = useState("root");
  const [password, setPassword] = useState("");
  const [privateKey, setPrivateKey] = useState("");
  const [way, setWay] = useState<"password" | "key">("password");
  const [softwareGpus, setSoftwareGpus] = useState(0);
  const [hostKey, setHostKey] = useState<HostKey | null>(null);
  const [taskId, setTaskId] = useState("");
  const task = useRows("task").find((row) => row.id === taskId);
  const submit = useMutation({
    mutationFn: async () => {
      const body = {
        address,
        port: Number(port),
        username,
        ...(way === "key" ? { private_key: privateKey, passphrase: password } : { password }),
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
    onSuccess: (started) => setTaskId(started.id),
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
  const destination = `ssh://${username}@${address || "HOST"}${port === "22" ? "" : `:${port}`}`;
  const unconfirmed =
    submit.error instanceof Problem && submit.error.code === "host_key_unconfirmed";
  return (
    <Modal isOpen variant="medium" onClose={onClose} aria-labelledby="add-node-title">
      <ModalHeader
        title={t("action.addNode")}
        labelId="add-node-title"
        description={t("addNode.lead")}
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
                title={t("addNode.hostKey", { key: `${hostKey.type} SHA256:${hostKey.sha256}` })}
                component="p"
              >
                {t("addNode.compare")} <code>ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub</code>
              </Alert>
            )}
            <FormGroup label={t("settings.address")} fieldId="address" isRequired>
              <TextInput
                id="address"
                value={address}
                onChange={(_, v) => changeTarget(setAddress, v)}
                isRequired
                autoFocus
              />
            </FormGroup>
            <FormGroup label={t("addNode.port")} fieldId="port">
              <TextInput
                id="port"
                type="number"
                value={port}
                onChange={(_, v) => changeTarget(setPort, v)}
              />
            </FormGroup>
            <FormGroup label={t("login.username")} fieldId="node-user">
              <TextInput
                id="node-user"
                value={username}
                onChange={(_, v) => setUsername(v)}
                autoComplete="off"
              />
            </FormGroup>
            <FormGroup label={t("addNode.way")} fieldId="node-way">
              <FormSelect
                id="node-way"
                value={way}
                onChange={(_, v) => setWay(v === "key" ? "key" : "password")}
              >
                <FormSelectOption value="password" label={t("login.password")} />
                <FormSelectOption value="key" label={t("addNode.key")} />
              </FormSelect>
            </FormGroup>
            {way === "key" && (
              <FormGroup label={t("addNode.key")} fieldId="node-key" isRequired>
                <TextArea
                  id="node-key"
                  rows={4}
                  value={privateKey}
                  placeholder="-----BEGIN OPENSSH PRIVATE KEY-----"
                  onChange={(_, v) => setPrivateKey(v)}
                  isRequired
                />
              </FormGroup>
            )}
            <FormGroup
              label={t(way === "key" ? "addNode.passphrase" : "login.password")}
              fieldId="node-password"
              isRequired={way === "password"}
            >
              <TextInput
                id="node-password"
                type="password"
                value={password}
                onChange={(_, v) => setPassword(v)}
                autoComplete="off"
                isRequired={way === "password"}
              />
            </FormGroup>
            <FormGroup label={t("addNode.software")} fieldId="software-gpus">
              <NumberInput
                id="software-gpus"
                value={softwareGpus}
                min={0}
                max={16}
                inputAriaLabel={t("addNode.softwareCount")}
                minusBtnAriaLabel={t("allocate.fewer")}
                plusBtnAriaLabel={t("allocate.moreGpus")}
                onMinus={() => setSoftwareGpus(Math.max(0, softwareGpus - 1))}
                onPlus={() => setSoftwareGpus(Math.min(16, softwareGpus + 1))}
                onChange={(e) => setSoftwareGpus(Number((e.target as HTMLInputElement).value))}
              />
            </FormGroup>
            <FormGroup label={t("common.sameCommand")} fieldId="as-command">
              <ClipboardCopy
                isReadOnly
                hoverTip={t("common.copy")}
                clickTip={t("common.copied")}
                textAriaLabel={t("common.command")}
              >
                {shellLine(["busbar", "node", "add", destination], {
                  key: way === "key" && "KEY_FILE",
                  "software-gpus": softwareGpus > 0 && String(softwareGpus),
                })}
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
            isDisabled={submit.isPending || !address || !(way === "key" ? privateKey : password)}
          >
            {t(hostKey ? "addNode.trust" : "addNode.connect")}
          </Button>
        )}
        {task?.state === "failed" && (
          <Button variant="secondary" onClick={() => setTaskId("")}>
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
