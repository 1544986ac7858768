// Fields of the dialog that registers a node over SSH.
import {
  ClipboardCopy,
  FormGroup,
  FormSelect,
  FormSelectOption,
  NumberInput,
  TextArea,
  TextInput,
} from "@patternfly/react-core";
import { shellLine } from "../model/shellLine";
import { t } from "../text/text";

export interface NodeAccess {
  address: string;
  port: string;
  username: string;
  way: "password" | "key";
  /** The password, or the passphrase of the key. */
  password: string;
  privateKey: string;
  softwareGpus: number;
}
export const INITIAL: NodeAccess = {
  address: "",
  port: "22",
  username: "root",
  way: "password",
  password: "",
  privateKey: "",
  softwareGpus: 0,
};
const MAX_SOFTWARE_GPUS = 16;

export const isComplete = ({ address, way, privateKey, password }: NodeAccess) =>
  Boolean(address && (way === "key" ? privateKey : password));

interface FieldsProps {
  access: NodeAccess;
  put: (fresh: Partial<NodeAccess>) => void;
}

export function AddressFields({ access, put }: FieldsProps) {
  return (
    <>
      <FormGroup label={t("settings.address")} fieldId="address" isRequired>
        <TextInput
          id="address"
          value={access.address}
          onChange={(_, address) => put({ address })}
          isRequired
          autoFocus
        />
      </FormGroup>
      <FormGroup label={t("addNode.port")} fieldId="port">
        <TextInput
          id="port"
          type="number"
          value={access.port}
          onChange={(_, port) => put({ port })}
        />
      </FormGroup>
      <FormGroup label={t("login.username")} fieldId="node-user">
        <TextInput
          id="node-user"
          value={access.username}
          onChange={(_, username) => put({ username })}
          autoComplete="off"
        />
      </FormGroup>
    </>
  );
}

function KeyField({ access, put }: FieldsProps) {
  return (
    <FormGroup label={t("addNode.key")} fieldId="node-key" isRequired>
      <TextArea
        id="node-key"
        rows={4}
        value={access.privateKey}
        placeholder="-----BEGIN OPENSSH PRIVATE KEY-----"
        onChange={(_, privateKey) => put({ privateKey })}
        isRequired
      />
    </FormGroup>
  );
}

function SecretField({ access, put }: FieldsProps) {
  const hasKey = access.way === "key";
  return (
    <FormGroup
      label={t(hasKey ? "addNode.passphrase" : "login.password")}
      fieldId="node-password"
      isRequired={!hasKey}
    >
      <TextInput
        id="node-password"
        type="password"
        value={access.password}
        onChange={(_, password) => put({ password })}
        autoComplete="off"
        isRequired={!hasKey}
      />
    </FormGroup>
  );
}

export function CredentialFields({ access, put }: FieldsProps) {
  return (
    <>
      <FormGroup label={t("addNode.way")} fieldId="node-way">
        <FormSelect
          id="node-way"
          value={access.way}
          onChange={(_, v) => put({ way: v === "key" ? "key" : "password" })}
        >
          <FormSelectOption value="password" label={t("login.password")} />
          <FormSelectOption value="key" label={t("addNode.key")} />
        </FormSelect>
      </FormGroup>
      {access.way === "key" && <KeyField {...{ access, put }} />}
      <SecretField {...{ access, put }} />
    </>
  );
}

export function SoftwareGpuField({ access, put }: FieldsProps) {
  const count = access.softwareGpus;
  return (
    <FormGroup label={t("addNode.software")} fieldId="software-gpus">
      <NumberInput
        id="software-gpus"
        value={count}
        min={0}
        max={MAX_SOFTWARE_GPUS}
        inputAriaLabel={t("addNode.softwareCount")}
        minusBtnAriaLabel={t("allocate.fewer")}
        plusBtnAriaLabel={t("allocate.moreGpus")}
        onMinus={() => put({ softwareGpus: Math.max(0, count - 1) })}
        onPlus={() => put({ softwareGpus: Math.min(MAX_SOFTWARE_GPUS, count + 1) })}
        onChange={(e) => put({ softwareGpus: Number((e.target as HTMLInputElement).value) })}
      />
    </FormGroup>
  );
}

/** The same as a command. */
export function AsCommand({ access: a }: { access: NodeAccess }) {
  const destination = `ssh://${a.username}@${a.address || "HOST"}${a.port === "22" ? "" : `:${a.port}`}`;
  return (
    <FormGroup label={t("common.sameCommand")} fieldId="as-command">
      <ClipboardCopy
        isReadOnly
        hoverTip={t("common.copy")}
        clickTip={t("common.copied")}
        textAriaLabel={t("common.command")}
      >
        {shellLine(["busbar", "node", "add", destination], {
          key: a.way === "key" && "KEY_FILE",
          "software-gpus": a.softwareGpus > 0 && String(a.softwareGpus),
        })}
      </ClipboardCopy>
    </FormGroup>
  );
}
