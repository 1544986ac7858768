// Approval of a device that signs in without a password, such as `busbar login`.
import {
  ActionList,
  ActionListItem,
  Alert,
  Button,
  Form,
  FormGroup,
  PageSection,
  TextInput,
} from "@patternfly/react-core";
import { type FormEvent, useState } from "react";
import { change } from "../actions/change";
import { type Schema, api, unwrap } from "../api/client";
import { dateTime } from "../model/format";
import { useAccount } from "../model/account";
import { t } from "../text/text";
import { PageHeader } from "../ui/PageHeader";
import { Panel } from "../ui/Panel";
import { Properties } from "../ui/Properties";

type Device = Schema<"DeviceLogin">;
const at = (code: string) => ({ params: { path: { code } } });
const find = async (code: string) =>
  unwrap(await api.GET("/api/v1/device-logins/{code}", at(code)));
const approve = async (code: string) =>
  unwrap(await api.POST("/api/v1/device-logins/{code}/approve", at(code)));
const deny = async (code: string) =>
  unwrap(await api.POST("/api/v1/device-logins/{code}/deny", at(code)));

function CodeForm({ found }: { found: (device: Device) => void }) {
  const [code, setCode] = useState("");
  const [error, setError] = useState("");
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setError("");
    try {
      found(await find(code));
    } catch (problem) {
      setError((problem as Error).message);
    }
  };
  return (
    <Form onSubmit={(e) => void submit(e)} className="bb-narrow">
      <p>{t("device.help")}</p>
      {error && <Alert variant="danger" isInline component="p" title={error} />}
      <FormGroup label={t("device.code")} fieldId="device-code" isRequired>
        <TextInput
          id="device-code"
          value={code}
          onChange={(_, v) => setCode(v)}
          placeholder="BCDF-GHJK"
          autoComplete="off"
          autoFocus
        />
      </FormGroup>
      <Button type="submit" variant="primary" isDisabled={!code.trim()}>
        {t("device.find")}
      </Button>
    </Form>
  );
}

function DeviceProperties({ device }: { device: Device }) {
  return (
    <Properties
      properties={[
        [t("device.code"), device.code],
        [t("device.client"), device.client || "–"],
        [t("device.address"), device.address],
        [t("device.begun"), dateTime(device.created_at)],
      ]}
    />
  );
}

function Decision({ device, done }: { device: Device; done: (approved: boolean) => void }) {
  const { me } = useAccount();
  const [error, setError] = useState("");
  const decide = async (approved: boolean) => {
    setError("");
    try {
      await change(t(approved ? "device.approved" : "device.denied"), () =>
        (approved ? approve : deny)(device.code),
      );
      done(approved);
    } catch (problem) {
      setError((problem as Error).message);
    }
  };
  return (
    <div className="bb-stack">
      <Alert variant="warning" isInline component="p" title={t("device.warning")} />
      {error && <Alert variant="danger" isInline component="p" title={error} />}
      <DeviceProperties device={device} />
      <ActionList>
        <ActionListItem>
          <Button variant="primary" onClick={() => void decide(true)}>
            {t("device.approve", { name: me.username })}
          </Button>
        </ActionListItem>
        <ActionListItem>
          <Button variant="danger" onClick={() => void decide(false)}>
            {t("device.deny")}
          </Button>
        </ActionListItem>
      </ActionList>
    </div>
  );
}

export default function ApprovePage() {
  const [device, setDevice] = useState<Device | null>(null);
  const [approved, setApproved] = useState(false);
  return (
    <>
      <PageHeader title={t("device.title")} />
      <PageSection className="bb-stack">
        <Panel title={t("device.code")}>
          {approved && <p>{t("device.done")}</p>}
          {!approved && !device && <CodeForm found={setDevice} />}
          {!approved && device && (
            <Decision
              device={device}
              done={(yes) => {
                setApproved(yes);
                setDevice(null);
              }}
            />
          )}
        </Panel>
      </PageSection>
    </>
  );
}
