// Sign in again before a change of how one signs in.
import { Alert, Button, Form } from "@patternfly/react-core";
import { type FormEvent, useState } from "react";
import type { Me } from "../api/client";
import { useAccount } from "../model/account";
import { t } from "../text/text";
import { CodeField } from "./CodeField";
import { PasskeySignIn } from "./PasskeyButton";
import { PasswordField } from "./PasswordField";
import { ProviderButtons } from "./ProviderButtons";
import { signIn } from "./signIn";

interface Props {
  hasSecondFactor: boolean;
  done: () => void;
}

/** Form of users with a password of the appliance or of a directory. */
function PasswordProof({ hasSecondFactor, done, enter }: Props & { enter: (found: Me) => void }) {
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
  return (
    <Form onSubmit={(e) => void submit(e)} className="bb-narrow">
      <p>{t("factor.prove")}</p>
      {error && <Alert variant="danger" isInline component="p" title={error} />}
      <PasswordField
        id="prove-password"
        label={t("login.password")}
        value={password}
        onChange={setPassword}
        autoFocus
      />
      {hasSecondFactor && <CodeField id="prove-code" value={code} onChange={setCode} help />}
      <Button type="submit" variant="primary" isDisabled={!password || (hasSecondFactor && !code)}>
        {t("factor.continue")}
      </Button>
      <PasskeySignIn enter={enter} onError={setError} />
    </Form>
  );
}

/** The identity provider of the user, or a passkey. */
function ProviderProof({ enter }: { enter: (found: Me) => void }) {
  const [error, setError] = useState("");
  return (
    <div className="bb-narrow">
      <p>{t("factor.prove")}</p>
      {error && <Alert variant="danger" isInline component="p" title={error} />}
      <PasskeySignIn enter={enter} onError={setError} />
      <ProviderButtons />
    </div>
  );
}

export function ProveIdentity({ hasSecondFactor, done }: Props) {
  const { me } = useAccount();
  const enter = (found: Me) => (found.username === me.username ? done() : location.reload());
  if (me.source === "oidc") return <ProviderProof enter={enter} />;
  return <PasswordProof {...{ hasSecondFactor, done, enter }} />;
}
