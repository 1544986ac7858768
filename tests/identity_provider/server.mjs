// Identity provider for tests: npm's oidc-provider with TLS. Arguments: folder with certificates, port,
// redirect URI, seconds by which its clock is wrong.
import { readFileSync } from "node:fs";
import https from "node:https";
import { join } from "node:path";

const [folder, port, redirectUri, wrongBy] = process.argv.slice(2);
const now = Date.now;
Date.now = () => now() + 1000 * Number(wrongBy);
const { default: Provider } = await import("oidc-provider");

const people = () => JSON.parse(readFileSync(join(folder, "people.json"), "utf8"));
const provider = new Provider(`https://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: "busbar",
      client_secret: "secret of the client",
      redirect_uris: [redirectUri],
    },
  ],
  cookies: { keys: ["only for tests"] },
  claims: { openid: ["sub"], profile: ["preferred_username", "groups"], email: ["email"] },
  conformIdTokenClaims: false,
  features: { devInteractions: { enabled: true } },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, ...people()[id] }) }),
  pkce: { required: () => true },
  ttl: { IdToken: 60 },
});
const tls = {
  cert: readFileSync(join(folder, "server.pem")),
  key: readFileSync(join(folder, "server.key")),
};
https.createServer(tls, provider.callback()).listen(Number(port), "127.0.0.1");
