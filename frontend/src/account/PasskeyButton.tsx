// Button that lets a device of the browser prove a passkey.
import { Button } from "@patternfly/react-core";
import { useQuery } from "@tanstack/react-query";
import { useState } from "react";
import type { Me } from "../api/client";
import { t } from "../text/text";
import { readOptions } from "./ProviderButtons";
import { signInWithPasskey } from "./passkeys";

interface Props {
  label: string;
  /** The exchange with the device and the appliance. */
  run: () => Promise<void>;
  onError: (message: string) => void;
}

export function PasskeyButton({ label, run, onError }: Props) {
  const [busy, setBusy] = useState(false);
  const click = async () => {
    setBusy(true);
    onError("");
    try {
      await run();
    } catch (problem) {
      onError((problem as Error).message);
    }
    setBusy(false);
  };
  return (
    <Button variant="secondary" isBlock isDisabled={busy} onClick={() => void click()}>
      {label}
    </Button>
  );
}

/** Signs in with a passkey alone, where the appliance takes them. */
export function PasskeySignIn({
  enter,
  onError,
}: {
  enter: (me: Me) => void;
  onError: (message: string) => void;
}) {
  const options = useQuery({ queryKey: ["sign-in-options"], queryFn: readOptions, retry: false });
  if (!options.data?.has_passkeys) return null;
  return (
    <PasskeyButton
      label={t("passkey.signIn")}
      run={async () => enter(await signInWithPasskey())}
      onError={onError}
    />
  );
}
