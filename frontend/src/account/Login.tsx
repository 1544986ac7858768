import {
  ActionGroup,
  Alert,
  Button,
  Card,
  CardBody,
  Form,
  FormGroup,
  FormHelperText,
  HelperText,
  HelperTextItem,
  TextInput,
  Title,
} from "@patternfly/react-core";
import { useQueryClient } from "@tanstack/react-query";
import { type FormEvent, useState } from "react";
import { type Me, api, unwrap } from "../api/client";
import { t } from "../text/text";
import logo from "../busbar.svg";

/** Sign-in form; `expected` is the user whose sign-in ended while the console was open. */
export function Login({ expected = "" }: { expected?: string }) {
  const cache = useQueryClient();
  const [username, setUsername] = useState(expected || "admin");
  const [password, setPassword] = useState("");
  const [newPassword, setNewPassword] = useState<string | null>(null);
  const [error, setError] = useState("");
  const [busy, setBusy] = useState(false);

  async function submit(e: FormEvent) {
    e.preventDefault();
    setBusy(true);
    setError("");
    try {
      const body = { username, password, ...(newPassword ? { new_password: newPassword } : {}) };
      const me: Me = unwrap(await api.POST("/api/v1/browser-login", { body }));
      if (me.must_change_password) setNewPassword("");
      else if (expected && me.username !== expected) location.reload();
      else cache.setQueryData(["me"], me);
    } catch (problem) {
      setError((problem as Error).message);
    }
    setBusy(false);
  }

  return (
    <main className="bb-login">
      <Card className="bb-login__card">
        <CardBody>
          <div className="bb-login__brand">
            <img src={logo} alt="" width={44} height={44} />
            <div>
              <Title headingLevel="h1">Busbar</Title>
              <p className="bb-quiet">{t("login.lead")}</p>
            </div>
          </div>
          <Form onSubmit={submit}>
            {expected && <Alert variant="info" isInline title={t("login.again")} component="p" />}
            {error && <Alert variant="danger" isInline title={error} component="p" />}
            <FormGroup label={t("login.username")} fieldId="username">
              <TextInput
                id="username"
                value={username}
                onChange={(_, v) => setUsername(v)}
                autoComplete="username"
                isRequired
              />
            </FormGroup>
            <FormGroup label={t("login.password")} fieldId="password">
              <TextInput
                id="password"
                type="password"
                value={password}
                onChange={(_, v) => setPassword(v)}
                autoComplete="current-password"
                isRequired
                autoFocus
              />
              {newPassword === null && (
                <FormHelperText>
                  <HelperText>
                    <HelperTextItem>{t("login.initial")}</HelperTextItem>
                  </HelperText>
                </FormHelperText>
              )}
            </FormGroup>
            {newPassword !== null && (
              <FormGroup label={t("login.newPassword")} fieldId="fresh">
                <TextInput
                  id="fresh"
                  type="password"
                  value={newPassword}
                  onChange={(_, v) => setNewPassword(v)}
                  autoComplete="new-password"
                  isRequired
                  autoFocus
                />
                <FormHelperText>
                  <HelperText>
                    <HelperTextItem>{t("login.newHelp")}</HelperTextItem>
                  </HelperText>
                </FormHelperText>
              </FormGroup>
            )}
            <ActionGroup>
              <Button type="submit" variant="primary" isBlock isLoading={busy} isDisabled={busy}>
                {t("login.signIn")}
              </Button>
            </ActionGroup>
          </Form>
        </CardBody>
      </Card>
    </main>
  );
}
