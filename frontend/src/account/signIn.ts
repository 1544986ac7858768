// Sign-in of the console: sends the login, and learns from refusals what else is needed.
import { type Me, Problem, type Schema, api, unwrap } from "../api/client";
import type { NewSecretValue } from "./NewSecret";
import type { Json } from "./passkeys";

export interface Credentials {
  username: string;
  password: string;
  newPassword?: string | null;
  code?: string | null;
  passkey?: Json | null;
}
/** What a login lacks, or who has signed in. */
export interface Outcome {
  me?: Me;
  recoveryCodes: string[];
  needsPassword?: boolean;
  needsCode?: boolean;
  secret?: NewSecretValue;
  /** Options with which a passkey replaces the code. */
  passkeyOptions?: Json;
}

export async function signIn({
  username,
  password,
  newPassword,
  code,
  passkey,
}: Credentials): Promise<Outcome> {
  const body = {
    username,
    password,
    ...(newPassword ? { new_password: newPassword } : {}),
    ...(passkey ? { passkey } : code ? { code } : {}),
  };
  try {
    const me: Schema<"SignedIn"> = unwrap(await api.POST("/api/v1/browser-login", { body }));
    if (me.must_change_password) return { recoveryCodes: [], needsPassword: true };
    return { me, recoveryCodes: me.recovery_codes };
  } catch (problem) {
    const missing = problem instanceof Problem ? missingOf(problem) : null;
    if (!missing || code || passkey) throw problem;
    return missing;
  }
}

export function missingOf({ code, fields }: Problem): Outcome | null {
  const needs = {
    recoveryCodes: [],
    needsCode: true,
    needsPassword: Boolean(fields.must_change_password),
    ...(fields.passkey_options ? { passkeyOptions: fields.passkey_options as Json } : {}),
  };
  if (code === "second_factor_required") return needs;
  if (code === "second_factor_setup_required")
    return {
      ...needs,
      secret: { secret: String(fields.secret), qr: fields.qr as string[] },
    };
  return null;
}
