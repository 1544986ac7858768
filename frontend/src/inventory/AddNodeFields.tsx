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
import { FieldGroup } from "../ui/FieldGroup";
import { type Field, fieldId, refused } from "../ui/fields";
import { type ErrorOf, outcome } from "../ui/refusal";

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

const FIELDS = {
  address: { name: "address", label: "settings.address", type: "text", required: true },
  port: { name: "port", label: "addNode.port", type: "number" },
  username: { name: "username", label: "login.username", type: "text" },
  key: { name: "private_key", label: "addNode.key", type: "area", required: true },
  passphrase: { name: "passphrase", label: "addNode.passphrase", type: "text" },
  password: { name: "password", label: "login.password", type: "text", required: true },
  softwareGpus: { name: "software_gpus", label: "addNode.softwareCount", type: "number" },
} satisfies Record<string, Field>;
export const NODE_FIELDS: Field[] = Object.values(FIELDS);

interface FieldsProps {
  access: NodeAccess;
  put: (fresh: Partial<NodeAccess>) => void;
  errorOf: ErrorOf;
}

export function AddressFields({ access, put, errorOf }: FieldsProps) {
  return (
    <>
      <FieldGroup {...outcome(FIELDS.address, errorOf)}>
        <TextInput
          id={fieldId(FIELDS.address)}
          {...refused(outcome(FIELDS.address, errorOf))}
          value={access.address}
          onChange={(_, address) => put({ address })}
          isRequired
          autoFocus
        />
      </FieldGroup>
      <FieldGroup {...outcome(FIELDS.port, errorOf)}>
        <TextInput
          id={fieldId(FIELDS.port)}
          {...refused(outcome(FIELDS.port, errorOf))}
          type="number"
          value={access.port}
          onChange={(_, port) => put({ port })}
        />
      </FieldGroup>
      <FieldGroup {...outcome(FIELDS.username, errorOf)}>
        <TextInput
          id={fieldId(FIELDS.username)}
          {...refused(outcome(FIELDS.username, errorOf))}
          value={access.username}
          onChange={(_, username) => put({ username })}
          autoComplete="off"
        />
      </FieldGroup>
    </>
  );
}

function KeyField({ access, put, errorOf }: FieldsProps) {
  return (
    <FieldGroup {...outcome(FIELDS.key, errorOf)}>
      <TextArea
        id={fieldId(FIELDS.key)}
        {...refused(outcome(FIELDS.key, errorOf))}
        rows={4}
        value={access.privateKey}
        placeholder="-----BEGIN OPENSSH PRIVATE KEY-----"
        onChange={(_, privateKey) => put({ privateKey })}
        isRequired
      />
    </FieldGroup>
  );
}

function SecretField({ access, put, errorOf }: FieldsProps) {
  const hasKey = access.way === "key";
  const of = outcome(hasKey ? FIELDS.passphrase : FIELDS.password, errorOf);
  return (
    <FieldGroup {...of}>
      <TextInput
        id={fieldId(of.field)}
        {...refused(of)}
        type="password"
        value={access.password}
        onChange={(_, password) => put({ password })}
        autoComplete="off"
        isRequired={!hasKey}
      />
    </FieldGroup>
  );
}

export function CredentialFields({ access, put, errorOf }: FieldsProps) {
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
      {access.way === "key" && <KeyField {...{ access, put, errorOf }} />}
      <SecretField {...{ access, put, errorOf }} />
    </>
  );
}

export function SoftwareGpuField({ access, put, errorOf }: FieldsProps) {
  const count = access.softwareGpus;
  const of = outcome(FIELDS.softwareGpus, errorOf);
  return (
    <FieldGroup {...of} isGroup label={t("addNode.software")}>
      <NumberInput
        id={fieldId(of.field)}
        validated={of.error ? "error" : "default"}
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
    </FieldGroup>
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
