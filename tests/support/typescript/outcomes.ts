/** Told of a service at `process.argv[2]`, as JSON: what becomes of commands, in good times and in bad ones. */

import { createPlaudit, PlauditError } from "plaudit-client";

declare const process: { argv: string[] };

const [, , baseUrl = "", storeId = "", entityId = "", png = ""] = process.argv;
const plaudit = createPlaudit({ baseUrl });
const review = { storeId, userId: "u-1", userName: "Ann", EntityId: entityId, EntityType: "Product", review: "Good.", rating: 4 };

async function problem(request: Promise<unknown>): Promise<object> {
  try {
    return { unexpected: await request };
  } catch (error) {
    if (!(error instanceof PlauditError)) throw error;
    const { status, type, errors, results } = error;
    return { status, type, errors: errors.map((each) => [each.pointer, each.code]), reasons: results.map((each) => each.reason) };
  }
}

const keys: (string | null)[] = [];
const apiKeys = new Set<string | null>();
const busy = createPlaudit({
  baseUrl,
  apiKey: "plaudit-key",
  fetch: async (request) => {
    keys.push(request.headers.get("Idempotency-Key"));
    apiKeys.add(request.headers.get("X-API-Key"));
    if (keys.length === 1) throw new TypeError("the connection broke");
    const taken = await fetch(request);
    return keys.length > 2 ? taken : new Response("busy", { status: 503, headers: { "Retry-After": "0" } });
  },
});
const kept = await busy.command("POST", "/api/customerReviews", { wait: 25, body: [review] });

const image = await plaudit.uploadImage(new Blob([Uint8Array.from(atob(png), (each) => each.charCodeAt(0))]), { wait: 25 });
const own = { wait: 25, idempotencyKey: `order-of-${entityId}`, body: [{ ...review, userId: "u-2", images: image.ids }] };
const first = await plaudit.command("POST", "/api/customerReviews", own);
const again = await plaudit.command("POST", "/api/customerReviews", own);

const reject = (ids: string[]) => {
  const params = { query: { expectedStatus: "New", reasonCode: "spam" } } as const;
  return plaudit.command("POST", "/api/customerReviews/reject", { wait: 25, params, body: ids });
};
await reject(kept.ids);
const { data: found } = await plaudit.GET("/api/customerReviews/{id}", { params: { path: { id: first.ids[0] ?? "" } } });

const shop = { params: { path: { storeId } } };
const { data: metrics } = await plaudit.GET("/metrics");
const { data: log } = await plaudit.GET("/api/audit/export", { params: { query: { reviewId: kept.ids[0] ?? "" } } });
const { data: photo } = await plaudit.GET("/api/images/{imageId}", { params: { path: { imageId: image.ids[0] ?? "" } } });
const { data: feed } = await plaudit.GET("/storefront/v1/{storeId}/product-reviews.xml", shop);
const { data: zip } = await plaudit.GET("/storefront/v1/{storeId}/product-reviews.zip", shop);

const summary = { params: { path: { storeId, entityType: "Product", entityId } } };
const path = "/storefront/v1/{storeId}/{entityType}/{entityId}/summary" as const;
const { response: seen } = await plaudit.GET(path, summary);
const known = { ...summary, headers: { "If-None-Match": seen.headers.get("ETag") ?? "" } };
const { response: unchanged } = await plaudit.GET(path, known);

const giveUp = new AbortController();
const away = createPlaudit({
  baseUrl,
  fetch: async () => {
    giveUp.abort();
    return new Response("away", { status: 502, headers: { "Retry-After": "50" } });
  },
});
const givenUp = await away
  .command("POST", "/api/customerReviews", { body: [review], signal: giveUp.signal })
  .catch((error: unknown) => (error as Error).name);

/** The name of the error, and how often `fetch` was called. */
async function hopeless(baseUrl: string, idempotencyKey: string, signal: AbortSignal | null): Promise<string> {
  let calls = 0;
  const client = createPlaudit({
    baseUrl,
    fetch: async () => {
      calls += 1;
      throw new TypeError("there is no such scheme");
    },
  });
  const told = client.command("POST", "/api/customerReviews", { idempotencyKey, body: [review], signal });
  return `${await told.catch((error: unknown) => (error as Error).name)} ${calls}`;
}

console.log(
  JSON.stringify({
    unchanged: unchanged.status,
    givenUp,
    // A pause before another attempt would end by the signal, with an AbortError.
    badKey: await hopeless(baseUrl, "заказ-17", AbortSignal.abort()),
    badUrl: await hopeless("localhost:8080", "order-17", null),
    texts: [metrics.includes("# HELP"), log.includes("reject"), feed.startsWith("<?xml")],
    files: [photo.type, zip.type, photo.size * zip.size > 0],
    apiKeys: [...apiKeys],
    keys: new Set(keys).size,
    attempts: keys.length,
    image: image.outcome,
    images: found.images.length,
    isSame: first.ids[0] === again.ids[0],
    twice: await problem(reject(kept.ids)),
    invalid: await problem(plaudit.command("POST", "/api/customerReviews", { body: [{ ...review, review: " ", rating: 6 }] })),
    unknown: await problem(plaudit.GET("/api/customerReviews/{id}", { params: { path: { id: "nobody-s" } } })),
  }),
);
