// Passkeys: the exchange between the appliance and the devices of the browser.
import { type Me, api, unwrap } from "../api/client";
import { t } from "../text/text";

/** Options or an answer, in the JSON of WebAuthn. */
export type Json = Record<string, unknown>;

/** Let a device sign the challenge of the options. */
export async function prove(options: Json): Promise<Json> {
  const publicKey = PublicKeyCredential.parseRequestOptionsFromJSON(
    options as unknown as PublicKeyCredentialRequestOptionsJSON,
  );
  return answerOf(await navigator.credentials.get({ publicKey }));
}

/** Let a device make a passkey. */
export async function create(options: Json): Promise<Json> {
  const publicKey = PublicKeyCredential.parseCreationOptionsFromJSON(
    options as unknown as PublicKeyCredentialCreationOptionsJSON,
  );
  return answerOf(await navigator.credentials.create({ publicKey }));
}

function answerOf(credential: Credential | null): Json {
  if (!(credential instanceof PublicKeyCredential)) throw new Error(t("passkey.none"));
  return credential.toJSON() as Json;
}

/** Sign in with a passkey alone. */
export async function signInWithPasskey(): Promise<Me> {
  const { options } = unwrap(await api.GET("/api/v1/passkey-logins/options"));
  const credential = await prove(options);
  return unwrap(await api.POST("/api/v1/passkey-logins", { body: { credential } }));
}
