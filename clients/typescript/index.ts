/** A typed client of Plaudit. Types come from its OpenAPI document: `schema.d.ts`, written by `make client`. */

import createClient, { mergeHeaders } from "openapi-fetch";
import type { ClientOptions, FetchOptions, FetchResponse, HeadersOptions, Middleware } from "openapi-fetch";
import type { CommandAnswer, ItemError, paths, Problem } from "./schema.js";

export type * from "./schema.js";

export type Verb = "GET" | "POST" | "PUT" | "DELETE";

type Operation<V extends Verb, P extends keyof paths> = paths[P][Lowercase<V>];

/** The paths that take this verb. */
export type PathOf<V extends Verb> = {
  [P in keyof paths]: Operation<V, P> extends { responses: unknown } ? P : never;
}[keyof paths];

/** Those of them that are commands. */
export type CommandPath<V extends Verb> = {
  [P in keyof paths]: Operation<V, P> extends { responses: { 202: unknown } } ? P : never;
}[keyof paths];

/** `params` (`path`, `query`, `header`), `body`, and what else `fetch` takes. */
export type Options<V extends Verb, P extends keyof paths> = FetchOptions<Operation<V, P>>;

/** What a request was answered with. */
export interface Answer<T> {
  data: T;
  response: Response;
}

type Json<T> = T extends Record<string | number, unknown>
  ? Exclude<Extract<FetchResponse<T, object, `${string}/${string}`>, { error?: never }>["data"], undefined>
  : never;

/** `text` or `blob` where a GET isn't answered with JSON. */
type Other<T> = T extends { responses: { 200: { content: infer Content } } } ? Parsed<keyof Content> : never;
type Parsed<Media> = Media extends `image/${string}` | "application/zip"
  ? "blob"
  : Media extends `text/${string}` | "application/xml" | "application/jsonl"
    ? "text"
    : never;

type Data<T> = "blob" extends Other<T> ? Blob : "text" extends Other<T> ? string : Json<T>;

type Needed<T> = object extends T ? [options?: T] : [options: T];

/** Sends a request. Rejects with PlauditError where the answer is a problem. */
export type Call<V extends Verb> = <P extends PathOf<V>>(
  path: P,
  ...options: Needed<Options<V, P>>
) => Promise<Answer<Data<Operation<V, P>>>>;

export interface CommandOptions {
  /** So many seconds the service waits for the outcome, 30 at most; without them the answer is `accepted`. */
  wait?: number;
  /** The same key gives the same ids, and takes effect once; a new one unless it is given. 1 to 255 visible ASCII characters. */
  idempotencyKey?: string;
  /** So often it is sent while the service is away or has too much to do. */
  attempts?: number;
}

export interface Plaudit {
  GET: Call<"GET">;
  POST: Call<"POST">;
  PUT: Call<"PUT">;
  DELETE: Call<"DELETE">;
  /** Sends a command, again with the same key where it has to be, and resolves to its outcome. */
  command<V extends Exclude<Verb, "GET">, P extends CommandPath<V>>(
    verb: V,
    path: P,
    ...options: Needed<Options<V, P> & CommandOptions>
  ): Promise<CommandAnswer>;
  /** Uploads an image (JPEG, PNG or WebP); the answer has its `id`, for `images` of a review. */
  uploadImage(image: Blob, options?: CommandOptions & { userId?: string }): Promise<CommandAnswer>;
}

export interface PlauditOptions extends Omit<ClientOptions, "baseUrl"> {
  /** The address of the service, as `https://reviews.example`. */
  baseUrl: string;
  /** A key of `plaudit keys`. Not for pages: what they may do needs none. */
  apiKey?: string | undefined;
}

interface Sending {
  headers?: HeadersOptions;
  middleware?: Middleware[];
}

/** Each GET that isn't answered with JSON: one that is missing here, or shouldn't be, doesn't compile. */
const OTHERS: {
  [P in PathOf<"GET"> as [Other<Operation<"GET", P>>] extends [never] ? never : P]: Other<Operation<"GET", P>>;
} = {
  "/api/audit/export": "text",
  "/api/images/{imageId}": "blob",
  "/metrics": "text",
  "/storefront/v1/{storeId}/product-reviews.xml": "text",
  "/storefront/v1/{storeId}/product-reviews.zip": "blob",
};

/** The service looks at the bytes themselves. */
const UNKNOWN = "application/octet-stream";
const ATTEMPTS = 5;
const UNLESS_TOLD_S = 1;
/** Nobody waits longer in a call: the error says when. */
const LONGEST_PAUSE_S = 60;

/** A problem that the service answered with (RFC 9457); of a command that wasn't applied it has the `results`, too. */
export class PlauditError extends Error {
  override readonly name = "PlauditError";
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  /** What is wrong, each with its place in the body or its parameter. */
  readonly errors: readonly ItemError[];
  readonly results: NonNullable<CommandAnswer["results"]>;
  /** So many seconds the service wants to be left alone. */
  readonly retryAfter: number | undefined;

  constructor(
    readonly problem: Problem & Partial<CommandAnswer>,
    readonly response: Response,
  ) {
    super(`${problem.status} ${problem.title}: ${problem.detail}`);
    this.type = problem.type;
    this.title = problem.title;
    this.status = problem.status;
    this.detail = problem.detail;
    this.errors = problem.errors ?? [];
    this.results = problem.results ?? [];
    const seconds = Number(response.headers.get("Retry-After") ?? Number.NaN);
    this.retryAfter = Number.isNaN(seconds) ? undefined : seconds;
  }

  /** True where the same request may succeed later. */
  get isPassing(): boolean {
    return [429, 502, 503, 504].includes(this.status);
  }
}

/** A client of the service at this address. `fetch`, `headers` and the like are those of openapi-fetch. */
export function createPlaudit({ apiKey, headers, ...options }: PlauditOptions): Plaudit {
  const client = createClient<paths>({ ...options, headers: mergeHeaders(headers, { "X-API-Key": apiKey }) });
  client.use({
    async onResponse({ response }) {
      // What has not changed is no problem: the answer to `If-None-Match` has no data.
      if (!response.ok && response.status !== 304) throw new PlauditError(await problemOf(response), response);
    },
  });
  // The types of `Plaudit` say what each path takes. Those of openapi-fetch let misspelt fields of bodies pass.
  const request = client.request as (verb: string, path: string, options?: object) => Promise<Answer<unknown>>;
  const parsed = OTHERS as Record<string, "blob" | "text">;
  const call = <V extends Verb>(verb: V) =>
    ((path, options) => request(verb, path, { parseAs: parsed[path], ...options })) as Call<V>;

  async function command(verb: string, path: string, options: CommandOptions & Sending = {}) {
    const { wait, idempotencyKey = crypto.randomUUID(), attempts = ATTEMPTS, headers, middleware = [], ...rest } = options;
    const marks = { "Idempotency-Key": idempotencyKey, Prefer: wait === undefined ? undefined : `wait=${wait}` };
    // What no request can be made of fails in the same way each time: a key or an address that isn't one.
    let isRequest = false;
    const noted: Middleware = {
      onRequest({ request }) {
        isRequest = request.url.startsWith("http");
      },
    };
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await request(verb, path, {
          ...rest,
          middleware: [...middleware, noted],
          headers: mergeHeaders(headers, marks),
        });
        return answer.data as CommandAnswer;
      } catch (error) {
        const pause = isRequest && attempt < attempts ? pauseAfter(error) : undefined;
        if (pause === undefined) throw error;
        await paused(pause, (rest as { signal?: AbortSignal }).signal);
      }
    }
  }

  return {
    GET: call("GET"),
    POST: call("POST"),
    PUT: call("PUT"),
    DELETE: call("DELETE"),
    command,
    uploadImage: (image, { userId, ...options } = {}) => {
      const upload = { body: image, bodySerializer: (body: Blob) => body, headers: { "Content-Type": image.type || UNKNOWN } };
      return command("POST", "/api/images", { ...options, ...upload, ...(userId && { params: { query: { userId } } }) });
    },
  };
}

/** Seconds until a command may be sent again; undefined where that is of no use. */
function pauseAfter(error: unknown): number | undefined {
  if (error instanceof PlauditError) {
    const pause = error.retryAfter ?? UNLESS_TOLD_S;
    return error.isPassing && pause <= LONGEST_PAUSE_S ? pause : undefined;
  }
  // `fetch` rejects with it where there was no answer: the command may have been taken, and its key tells.
  return error instanceof TypeError ? UNLESS_TOLD_S : undefined;
}

/** Resolves after so many seconds; rejects where whoever asked gives up meanwhile. */
function paused(seconds: number, signal?: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const giveUp = () => {
      clearTimeout(timer);
      reject(signal?.reason as Error);
    };
    const timer = setTimeout(() => {
      signal?.removeEventListener("abort", giveUp);
      resolve();
    }, seconds * 1_000);
    signal?.addEventListener("abort", giveUp);
    if (signal?.aborted) giveUp();
  });
}

async function problemOf(response: Response): Promise<Problem> {
  const text = await response.text();
  if (response.headers.get("Content-Type")?.startsWith("application/problem+json")) return JSON.parse(text) as Problem;
  const { status, statusText, url } = response;
  return { type: "about:blank", title: statusText, status, detail: text.slice(0, 1_000), instance: url };
}
