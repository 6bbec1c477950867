// An OpenID provider for tests: any login and password open it, and access tokens carry permissions and stores.
import Provider from "oidc-provider";

const { PORT, CALLBACK, AUDIENCE, PERMISSIONS } = process.env;
const client = (id) => ({
  client_id: id,
  client_secret: `secret-of-${id}`,
  redirect_uris: [CALLBACK],
  grant_types: ["authorization_code"],
  response_types: ["code"],
});

const provider = new Provider(`http://127.0.0.1:${PORT}`, {
  clients: [client("console"), client("other")],
  cookies: { keys: ["only for tests"] },
  pkce: { required: () => true },
  findAccount: (ctx, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  // `bound` has a store of its own, and the tokens of `brief` are.
  extraTokenClaims: (ctx, token) => (token.accountId === "bound" ? { stores: ["A"] } : undefined),
  ttl: {
    AccessToken: (ctx, token) => (token.accountId === "brief" ? 3 : 600),
    AuthorizationCode: 60,
    IdToken: 600,
    Grant: 600,
    Interaction: 600,
    Session: 600,
  },
  features: {
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: (ctx, resource) => ({
        scope: PERMISSIONS,
        audience: resource.endsWith("/plaudit") ? AUDIENCE : resource,
        accessTokenFormat: "jwt",
        jwt: { sign: { alg: "RS256" } },
      }),
    },
  },
});

provider.listen(PORT, "127.0.0.1", () => console.log("ready"));
