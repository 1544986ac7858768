// The browser comes back from an identity provider: finish the sign-in, with a code if one is needed.
import { Alert, Button, Form } from "@patternfly/react-core";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { type Me, Problem, type Schema, api, unwrap } from "../api/client";
import { t } from "../text/text";
import { LoadingState } from "../ui/states";
import { CodeField } from "./CodeField";
import { LoginCard } from "./LoginCard";
import { NewSecret, type NewSecretValue, RecoveryCodes } from "./NewSecret";
import { missingOf } from "./signIn";

export const RETURN_PATH = "/sign-in";

type Body = Schema<"ProviderReturn">;
const finish = async (body: Body) =>
  unwrap(await api.POST("/api/v1/provider-logins/return", { body }));

/** Send what the provider has put into the address, once: a code is valid once. */
function useAddress(send: (body: Body) => void, refuse: (message: string) => void) {
  const begun = useRef(false);
  useEffect(() => {
    if (begun.current) return;
    begun.current = true;
    const query = new URLSearchParams(location.search);
    history.replaceState(null, "", RETURN_PATH);
    const refused = query.get("error");
    // Others can write the address, so nothing of it is shown but the name of an error.
    if (refused) refuse(t("login.refused", { code: /^\w{1,40}$/.test(refused) ? refused : "?" }));
    else send({ authorization_code: query.get("code") ?? "", state: query.get("state") ?? "" });
  });
}

interface CodeFormProps {
  secret: NewSecretValue | null;
  code: string;
  setCode: (code: string) => void;
  send: () => void;
}

function CodeForm({ secret, code, setCode, send }: CodeFormProps) {
  const submit = (e: FormEvent) => {
    e.preventDefault();
    send();
  };
  return (
    <Form onSubmit={submit}>
      {secret && (
        <>
          <p>{t("factor.required")}</p>
          <NewSecret value={secret} />
        </>
      )}
      <CodeField id="code" value={code} onChange={setCode} autoFocus help={!secret} />
      <Button type="submit" variant="primary" isBlock isDisabled={!code}>
        {t("login.signIn")}
      </Button>
    </Form>
  );
}

/** The second half of a sign-in with a provider: what it lacks, and who has signed in. */
function useReturn(enter: (me: Me) => void) {
  const [code, setCode] = useState<string | null>(null);
  const [secret, setSecret] = useState<NewSecretValue | null>(null);
  const [signedIn, setSignedIn] = useState<{ me: Me; codes: string[] } | null>(null);
  const [error, setError] = useState("");
  const send = async (body: Body) => {
    setError("");
    try {
      const me = await finish(body);
      if (me.recovery_codes.length > 0) setSignedIn({ me, codes: me.recovery_codes });
      else enter(me);
    } catch (problem) {
      const missing = problem instanceof Problem && !body.code ? missingOf(problem) : null;
      if (missing?.secret) setSecret(missing.secret);
      if (missing) setCode("");
      else setError((problem as Error).message);
    }
  };
  useAddress((body) => void send(body), setError);
  return { code, setCode, secret, signedIn, error, send };
}

export function ProviderReturn({ done }: { done: () => void }) {
  const cache = useQueryClient();
  const leave = () => {
    history.replaceState(null, "", "/");
    done();
  };
  const enter = (me: Me) => {
    cache.setQueryData(["me"], me);
    leave();
  };
  const { code, setCode, secret, signedIn, error, send } = useReturn(enter);
  if (signedIn)
    return (
      <LoginCard>
        <RecoveryCodes codes={signedIn.codes} done={() => enter(signedIn.me)} />
      </LoginCard>
    );
  if (!error && code === null) return <LoadingState />;
  return (
    <LoginCard>
      <div className="bb-stack">
        {error && <Alert variant="danger" isInline title={error} component="p" />}
        {code !== null && (
          <CodeForm {...{ secret, code, setCode }} send={() => void send({ code })} />
        )}
        <Button variant="link" isInline onClick={leave}>
          {t("login.otherWay")}
        </Button>
      </div>
    </LoginCard>
  );
}
