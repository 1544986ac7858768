// Buttons of the identity providers on the sign-in page.
import { Alert, Button, Divider } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import { api, unwrap } from "../api/client";
import { t } from "../text/text";

export const readOptions = async () => unwrap(await api.GET("/api/v1/sign-in-options"));

/** Go to a provider; the browser comes back to /sign-in. */
async function visit(provider: string) {
  const begun = unwrap(await api.POST("/api/v1/provider-logins", { body: { provider } }));
  location.assign(begun.authorization_url);
}

export function ProviderButtons() {
  const [error, setError] = useState("");
  const options = useQuery({ queryKey: ["sign-in-options"], queryFn: readOptions, retry: false });
  const providers = options.data?.providers ?? [];
  if (providers.length === 0) return null;
  return (
    <div className="bb-stack bb-gap">
      <Divider />
      {error && <Alert variant="danger" isInline title={error} component="p" />}
      {providers.map((p) => (
        <Button
          key={p.id}
          variant="secondary"
          isBlock
          onClick={() => visit(p.id).catch((problem: Error) => setError(problem.message))}
        >
          {t("login.with", { name: p.name })}
        </Button>
      ))}
    </div>
  );
}
