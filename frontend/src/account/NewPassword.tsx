// A forgotten password: ask for a code by mail, and set a password with the link of the mail.
import {
  ActionGroup,
  Alert,
  Button,
  Form,
  FormGroup,
  TextInput,
  Title,
} from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { type FormEvent, useEffect, useState } from "react";
import { Problem, api, unwrap } from "../api/client";
import { t } from "../text/text";
import { LoginCard } from "./LoginCard";
import { PasswordField } from "./PasswordField";
import { readOptions } from "./ProviderButtons";

export const NEW_PASSWORD_PATH = "/new-password";

/** The link of the sign-in page, if the appliance sends mail. */
export function ForgottenPassword() {
  const options = useQuery({ queryKey: ["sign-in-options"], queryFn: readOptions, retry: false });
  if (!options.data?.has_password_resets) return null;
  return (
    <Button variant="link" isBlock component="a" href={NEW_PASSWORD_PATH}>
      {t("reset.forgotten")}
    </Button>
  );
}

export function NewPassword() {
  const [link] = useState(() => new URLSearchParams(location.hash.slice(1)));
  useEffect(() => {
    history.replaceState(null, "", NEW_PASSWORD_PATH); // the code is a secret
    // A link that is opened in this tab changes the fragment only.
    const reload = () => location.reload();
    window.addEventListener("hashchange", reload);
    return () => window.removeEventListener("hashchange", reload);
  }, []);
  const [username, setUsername] = useState(link.get("user") ?? "");
  const [password, setPassword] = useState("");
  const [error, setError] = useState<Error | null>(null);
  const [done, setDone] = useState(false);
  const [busy, setBusy] = useState(false);
  const code = link.get("code");

  async function submit(e: FormEvent) {
    e.preventDefault();
    setBusy(true);
    setError(null);
    try {
      if (code === null) unwrap(await api.POST("/api/v1/password-resets", { body: { username } }));
      else
        unwrap(
          await api.POST("/api/v1/password-resets/completion", {
            body: { username, code, new_password: password },
          }),
        );
      setDone(true);
    } catch (problem) {
      setError(problem as Error);
    }
    setBusy(false);
  }

  return (
    <LoginCard>
      <Form onSubmit={(e) => void submit(e)}>
        <Title headingLevel="h2">{t("reset.title")}</Title>
        {error && <Alert variant="danger" isInline title={error.message} component="p" />}
        {done && (
          <Alert
            variant={code === null ? "info" : "success"}
            isInline
            title={t(code === null ? "reset.sent" : "reset.done")}
            component="p"
          />
        )}
        {!done && code === null && <p>{t("reset.help")}</p>}
        {!done && (
          <FormGroup label={t("login.username")} fieldId="username">
            <TextInput
              id="username"
              value={username}
              onChange={(_, v) => setUsername(v)}
              autoComplete="username"
              isRequired
              isDisabled={code !== null}
              autoFocus={code === null}
            />
          </FormGroup>
        )}
        {!done && code !== null && (
          <PasswordField
            id="fresh"
            label={t("login.newPassword")}
            help={t("reset.newHelp")}
            value={password}
            onChange={setPassword}
            isNew
            autoFocus
          />
        )}
        <ActionGroup>
          {!done && (
            <Button type="submit" variant="primary" isBlock isLoading={busy} isDisabled={busy}>
              {t(code === null ? "reset.send" : "reset.set")}
            </Button>
          )}
          {error instanceof Problem && error.status === 401 && (
            <Button variant="link" isBlock component="a" href={NEW_PASSWORD_PATH}>
              {t("reset.another")}
            </Button>
          )}
          <Button variant="link" isBlock component="a" href="/">
            {t("reset.back")}
          </Button>
        </ActionGroup>
      </Form>
    </LoginCard>
  );
}
