// Sign in again before a change of how one signs in.
import { Alert, Button, Form, FormGroup, TextInput } from "@patternfly/react-core";
import { type FormEvent, useState } from "react";
import type { Me } from "../api/client";
import { useAccount } from "../model/account";
import { t } from "../text/text";
import { CodeField } from "./CodeField";
import { PasskeySignIn } from "./PasskeyButton";
import { ProviderButtons } from "./ProviderButtons";
import { signIn } from "./signIn";

interface Props {
  hasSecondFactor: boolean;
  done: () => void;
}

export function ProveIdentity({ hasSecondFactor, done }: Props) {
  const { me } = useAccount();
  const [password, setPassword] = useState("");
  const [code, setCode] = useState("");
  const [error, setError] = useState("");
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    setError("");
    try {
      const found = await signIn({ username: me.username, password, code });
      if (found.me) done();
    } catch (problem) {
      setError((problem as Error).message);
      setCode("");
    }
  };
  const enter = (found: Me) => (found.username === me.username ? done() : location.reload());
  if (me.source === "oidc")
    return (
      <div className="bb-narrow">
        <p>{t("factor.prove")}</p>
        {error && <Alert variant="danger" isInline component="p" title={error} />}
        <PasskeySignIn enter={enter} onError={setError} />
        <ProviderButtons />
      </div>
    );
  return (
    <Form onSubmit={(e) => void submit(e)} className="bb-narrow">
      <p>{t("factor.prove")}</p>
      {error && <Alert variant="danger" isInline component="p" title={error} />}
      <FormGroup label={t("login.password")} fieldId="prove-password">
        <TextInput
          id="prove-password"
          type="password"
          value={password}
          onChange={(_, v) => setPassword(v)}
          autoComplete="current-password"
          isRequired
          autoFocus
        />
      </FormGroup>
      {hasSecondFactor && <CodeField id="prove-code" value={code} onChange={setCode} help />}
      <Button type="submit" variant="primary" isDisabled={!password || (hasSecondFactor && !code)}>
        {t("factor.continue")}
      </Button>
      <PasskeySignIn enter={enter} onError={setError} />
    </Form>
  );
}
