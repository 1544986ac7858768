// My second factor: set up, replace, turn off, new recovery codes.
import { ActionList, ActionListItem, Alert, Button, Form } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { change } from "../actions/change";
import { api, unwrap } from "../api/client";
import { dateTime } from "../model/format";
import { t } from "../text/text";
import { Panel } from "../ui/Panel";
import { QueryState } from "../ui/states";
import { CodeField } from "./CodeField";
import { NewSecret, type NewSecretValue, RecoveryCodes } from "./NewSecret";
import { ProveIdentity } from "./ProveIdentity";
import { useSteps } from "./useSteps";

type Step =
  | { name: "state" }
  | { name: "secret"; value: NewSecretValue }
  | { name: "codes"; codes: string[] };

const begin = async () => unwrap(await api.POST("/api/v1/second-factor"));
const remove = async () => unwrap(await api.DELETE("/api/v1/second-factor"));
const renew = async () => unwrap(await api.POST("/api/v1/second-factor/recovery-codes"));
const confirm = async (code: string) =>
  unwrap(await api.POST("/api/v1/second-factor/confirmation", { body: { code } }));

function Confirmation({ value, done }: { value: NewSecretValue; done: (codes: string[]) => void }) {
  const [code, setCode] = useState("");
  const [error, setError] = useState("");
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setError("");
    try {
      done((await change(t("factor.enabled"), () => confirm(code))).recovery_codes);
    } catch (problem) {
      setError((problem as Error).message);
    }
  };
  return (
    <Form onSubmit={(e) => void submit(e)} className="bb-narrow">
      <p>{t("factor.scan")}</p>
      <NewSecret value={value} />
      {error && <Alert variant="danger" isInline component="p" title={error} />}
      <CodeField id="second-factor-code" value={code} onChange={setCode} autoFocus />
      <Button type="submit" variant="primary" isDisabled={!code}>
        {t("factor.confirm")}
      </Button>
    </Form>
  );
}

const STATE: Step = { name: "state" };

/** The steps of the panel, and the changes that lead from one to the next. */
function useFactorSteps() {
  const steps = useSteps<Step>(STATE, ["second-factor", "me"]);
  const { setStep, show, run } = steps;
  const actions: Actions = {
    setUp: () =>
      run(async () => {
        const value = await begin();
        setStep({ name: "secret", value });
      }),
    renew: () =>
      run(async () => {
        const { recovery_codes } = await change(t("factor.renewed"), renew);
        show({ name: "codes", codes: recovery_codes });
      }),
    remove: () =>
      run(async () => {
        await change(t("factor.removed"), remove);
        show(STATE);
      }),
  };
  return { ...steps, actions };
}

export function SecondFactorPanel() {
  const { step, show, proved, actions, error } = useFactorSteps();
  const state = useQuery({
    queryKey: ["second-factor"],
    queryFn: async () => unwrap(await api.GET("/api/v1/second-factor")),
  });
  return (
    <Panel title={t("factor.title")}>
      <QueryState query={state}>
        {(found) => (
          <div className="bb-stack">
            {error && <Alert variant="danger" isInline component="p" title={error} />}
            {step.name === "state" && <State found={found} actions={actions} />}
            {step.name === "prove" && (
              <ProveIdentity hasSecondFactor={Boolean(found.since)} done={proved} />
            )}
            {step.name === "secret" && (
              <Confirmation value={step.value} done={(codes) => show({ name: "codes", codes })} />
            )}
            {step.name === "codes" && (
              <div className="bb-narrow">
                <RecoveryCodes codes={step.codes} done={() => show(STATE)} />
              </div>
            )}
          </div>
        )}
      </QueryState>
    </Panel>
  );
}

interface Found {
  policy: string;
  is_required: boolean;
  since: string | null;
  recovery_codes_left: number;
}
type Actions = Record<"setUp" | "renew" | "remove", () => Promise<void>>;

function State({ found, actions }: { found: Found; actions: Actions }) {
  if (found.policy === "off") return <p>{t("factor.disabled")}</p>;
  const on = found.since !== null;
  return (
    <>
      <p>
        {on
          ? t("factor.on", { since: dateTime(found.since), count: found.recovery_codes_left })
          : t("factor.off")}
      </p>
      {found.is_required && <p>{t("factor.must")}</p>}
      <ActionList>
        <ActionListItem>
          <Button variant={on ? "secondary" : "primary"} onClick={() => void actions.setUp()}>
            {t(on ? "factor.replace" : "factor.setUp")}
          </Button>
        </ActionListItem>
        {on && (
          <ActionListItem>
            <Button variant="secondary" onClick={() => void actions.renew()}>
              {t("factor.newCodes")}
            </Button>
          </ActionListItem>
        )}
        {on && !found.is_required && (
          <ActionListItem>
            <Button variant="danger" onClick={() => void actions.remove()}>
              {t("factor.remove")}
            </Button>
          </ActionListItem>
        )}
      </ActionList>
    </>
  );
}
