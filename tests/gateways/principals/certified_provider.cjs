// A certified OpenID provider (npm: oidc-provider) on loopback. Prints its issuer, and ends with its standard input.
const { createServer } = require("node:http");
const { Provider } = require("oidc-provider");

const [client, secret, audience] = process.argv.slice(2);
const groups = { olga: ["desk-operators"], ada: ["desk"] };

const settings = {
  clients: [
    {
      client_id: client,
      client_secret: secret,
      application_type: "native",
      redirect_uris: ["http://127.0.0.1/live/signed-in"],
      grant_types: ["authorization_code", "refresh_token"],
      response_types: ["code"],
    },
    {
      client_id: "nightly",
      client_secret: secret,
      redirect_uris: [],
      response_types: [],
      grant_types: ["client_credentials"],
    },
  ],
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id, groups: groups[id] ?? [] }) }),
  claims: { openid: ["sub", "groups"] },
  conformIdTokenClaims: false,
  cookies: { keys: ["of a test"] },
  extraTokenClaims: (_, token) => ({ groups: token.kind === "ClientCredentials" ? ["desk"] : [] }),
  features: {
    clientCredentials: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => undefined,
      getResourceServerInfo: (_, resource) => ({ scope: "", audience: resource, accessTokenFormat: "jwt" }),
    },
  },
};

const server = createServer((request, response) => provider.callback()(request, response));
let provider;
server.listen(0, "127.0.0.1", () => {
  const issuer = `http://127.0.0.1:${server.address().port}`;
  provider = new Provider(issuer, settings);
  console.log(issuer);
});
process.stdin.on("end", () => process.exit(0)).resume();
