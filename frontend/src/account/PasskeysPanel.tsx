// My passkeys: add, rename, remove. The buttons do not follow `actions`: they would refuse a removal
// after an old sign-in, which this panel renews.
import { Alert, Button, Flex, Form, FormGroup, TextInput } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { change } from "../actions/change";
import { type Schema, api, unwrap } from "../api/client";
import { dateTime } from "../model/format";
import { useAccount } from "../model/account";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { QueryState } from "../ui/states";
import { RecoveryCodes } from "./NewSecret";
import { ProveIdentity } from "./ProveIdentity";
import { create } from "./passkeys";
import { useSteps } from "./useSteps";

type Passkey = Schema<"Passkey">;
type Step =
  | { name: "list" }
  | { name: "name"; passkey: Passkey | null }
  | { name: "codes"; codes: string[] };

async function add(name: string): Promise<string[]> {
  const { options } = unwrap(await api.POST("/api/v1/passkeys/options"));
  const credential = await create(options);
  const made = unwrap(await api.POST("/api/v1/passkeys", { body: { name, credential } }));
  return made.recovery_codes;
}

const rename = async (id: string, name: string) =>
  unwrap(
    await api.PATCH("/api/v1/passkeys/{passkey_id}", {
      params: { path: { passkey_id: id } },
      body: { name },
    }),
  );

const remove = async (id: string) =>
  unwrap(
    await api.DELETE("/api/v1/passkeys/{passkey_id}", { params: { path: { passkey_id: id } } }),
  );

function NameForm({ passkey, done }: { passkey: Passkey | null; done: (name: string) => void }) {
  const [name, setName] = useState(passkey?.name ?? "");
  const submit = (e: FormEvent) => {
    e.preventDefault();
    done(name.trim());
  };
  return (
    <Form onSubmit={submit} className="bb-narrow">
      <FormGroup label={t("passkey.name")} fieldId="passkey-name">
        <TextInput
          id="passkey-name"
          value={name}
          onChange={(_, v) => setName(v)}
          maxLength={100}
          isRequired
          autoFocus
        />
      </FormGroup>
      <Button type="submit" variant="primary" isDisabled={!name.trim()}>
        {t("factor.continue")}
      </Button>
    </Form>
  );
}

interface Actions {
  name: (passkey: Passkey | null) => void;
  remove: (passkey: Passkey) => void;
}

function List({ passkeys, actions }: { passkeys: Passkey[]; actions: Actions }) {
  return (
    <>
      {passkeys.length === 0 && <p>{t("passkey.empty")}</p>}
      {passkeys.map((p) => (
        <Flex key={p.id} alignItems={{ default: "alignItemsCenter" }}>
          <span>
            {p.name}{" "}
            <span className="bb-quiet">
              {p.last_used_at
                ? t("passkey.used", { time: dateTime(p.last_used_at) })
                : t("passkey.unused")}
            </span>
          </span>
          <Button variant="link" onClick={() => actions.name(p)}>
            {t("passkey.rename")}
          </Button>
          <Button variant="link" isDanger onClick={() => actions.remove(p)}>
            {t("passkey.remove")}
          </Button>
        </Flex>
      ))}
      <div>
        <Button variant="secondary" onClick={() => actions.name(null)}>
          {t("passkey.add")}
        </Button>
      </div>
    </>
  );
}

const LIST: Step = { name: "list" };

/** The steps of the panel, and the changes that lead from one to the next. */
function usePasskeySteps() {
  const steps = useSteps<Step>(LIST, ["passkeys", "second-factor", "me"]);
  const { setStep, show, run } = steps;
  const save = (passkey: Passkey | null, name: string) =>
    run(async () => {
      const codes = passkey
        ? await change(t("passkey.renamed"), () => rename(passkey.id, name).then(() => []))
        : await change(t("passkey.added"), () => add(name));
      show(codes.length > 0 ? { name: "codes", codes } : LIST);
    });
  const actions: Actions = {
    name: (passkey) => setStep({ name: "name", passkey }),
    remove: (passkey) =>
      void run(async () => {
        await change(t("passkey.removed"), () => remove(passkey.id));
        show(LIST);
      }),
  };
  return { ...steps, save, actions };
}

export function PasskeysPanel() {
  const { me } = useAccount();
  const { step, show, save, proved, actions, error } = usePasskeySteps();
  const found = useQuery({
    queryKey: ["passkeys"],
    queryFn: async () => unwrap(await api.GET("/api/v1/passkeys")).items,
  });
  return (
    <Panel title={t("passkey.title")}>
      <QueryState query={found}>
        {(passkeys) => (
          <div className="bb-stack">
            {error && <Alert variant="danger" isInline component="p" title={error} />}
            {step.name === "list" && <List passkeys={passkeys} actions={actions} />}
            {step.name === "name" && (
              <NameForm passkey={step.passkey} done={(name) => void save(step.passkey, name)} />
            )}
            {step.name === "prove" && (
              <ProveIdentity hasSecondFactor={Boolean(me.second_factor_since)} done={proved} />
            )}
            {step.name === "codes" && (
              <div className="bb-narrow">
                <RecoveryCodes codes={step.codes} done={() => show(LIST)} />
              </div>
            )}
          </div>
        )}
      </QueryState>
    </Panel>
  );
}
