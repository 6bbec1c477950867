/** A typed client of Plaudit. Its types come from the OpenAPI document: `make client` generates `schema.d.ts`. */

import createClient, { mergeHeaders } from "openapi-fetch";
import type { ClientOptions, FetchOptions, FetchResponse, HeadersOptions, Middleware } from "openapi-fetch";
import type { CommandAnswer, ItemError, paths, Problem } from "./schema.js";

export type * from "./schema.js";

export type Verb = "GET" | "POST" | "PUT" | "DELETE";

type Operation<V extends Verb, P extends keyof paths> = paths[P][Lowercase<V>];

/** The paths with this method. */
export type PathOf<V extends Verb> = {
  [P in keyof paths]: Operation<V, P> extends { responses: unknown } ? P : never;
}[keyof paths];

/** The paths with this method that are commands. */
export type CommandPath<V extends Verb> = {
  [P in keyof paths]: Operation<V, P> extends { responses: { 202: unknown } } ? P : never;
}[keyof paths];

/** `params` (`path`, `query`, `header`), `body`, and the options of `fetch`. */
export type Options<V extends Verb, P extends keyof paths> = FetchOptions<Operation<V, P>>;

/** The parsed response to a request. */
export interface Answer<T> {
  data: T;
  response: Response;
}

type Json<T> = T extends Record<string | number, unknown>
  ? Exclude<Extract<FetchResponse<T, object, `${string}/${string}`>, { error?: never }>["data"], undefined>
  : never;

/** `text` or `blob` if the response to a GET isn't JSON. */
type NonJson<T> = T extends { responses: { 200: { content: infer Content } } } ? ParseAs<keyof Content> : never;
type ParseAs<Media> = Media extends `image/${string}` | "application/zip"
  ? "blob"
  : Media extends `text/${string}` | "application/xml" | "application/jsonl"
    ? "text"
    : never;

type Data<T> = "blob" extends NonJson<T> ? Blob : "text" extends NonJson<T> ? string : Json<T>;

type OptionsOf<T> = object extends T ? [options?: T] : [options: T];

/** Sends a request. Rejects with PlauditError for a problem response. */
export type Call<V extends Verb> = <P extends PathOf<V>>(
  path: P,
  ...options: OptionsOf<Options<V, P>>
) => Promise<Answer<Data<Operation<V, P>>>>;

export interface CommandOptions {
  /** Seconds that the service waits for the outcome, at most 30; without it the outcome is `accepted`. */
  wait?: number;
  /** Commands with the same key get the same ids and take effect once. 1 to 255 visible ASCII characters; default: a new one. */
  idempotencyKey?: string;
  /** Maximum number of times that it is sent while the service is unavailable or overloaded; default: 5. */
  attempts?: number;
}

export interface Plaudit {
  GET: Call<"GET">;
  POST: Call<"POST">;
  PUT: Call<"PUT">;
  DELETE: Call<"DELETE">;
  /** Sends a command, with the same key for each retry, and resolves to its outcome. */
  command<V extends Exclude<Verb, "GET">, P extends CommandPath<V>>(
    verb: V,
    path: P,
    ...options: OptionsOf<Options<V, P> & CommandOptions>
  ): Promise<CommandAnswer>;
  /** Uploads an image (JPEG, PNG or WebP); the response has its `id`, for `images` of a review. */
  uploadImage(image: Blob, options?: CommandOptions & { userId?: string }): Promise<CommandAnswer>;
}

export interface PlauditOptions extends Omit<ClientOptions, "baseUrl"> {
  /** The base URL of the service, like `https://reviews.example`. */
  baseUrl: string;
  /** A key of `plaudit keys`. Pages need none: their requests are public. */
  apiKey?: string | undefined;
}

interface RequestOptions {
  headers?: HeadersOptions;
  middleware?: Middleware[];
}

/** All GETs whose response isn't JSON: a missing or superfluous one doesn't compile. */
const NOT_JSON: {
  [P in PathOf<"GET"> as [NonJson<Operation<"GET", P>>] extends [never] ? never : P]: NonJson<Operation<"GET", P>>;
} = {
  "/api/audit/export": "text",
  "/api/images/{imageId}": "blob",
  "/metrics": "text",
  "/storefront/v1/{storeId}/product-reviews.xml": "text",
  "/storefront/v1/{storeId}/product-reviews.zip": "blob",
};

/** The type of other images: the service examines the bytes. */
const BINARY = "application/octet-stream";
const ATTEMPTS = 5;
const DEFAULT_PAUSE_S = 1;
/** A call waits no longer than this; the error's `retryAfter` says when to try again. */
const LONGEST_PAUSE_S = 60;

/** A problem response of the service (RFC 9457), with the `results` of a command that wasn't applied. */
export class PlauditError extends Error {
  override readonly name = "PlauditError";
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly detail: string;
  /** The errors, each with its place in the body or its parameter. */
  readonly errors: readonly ItemError[];
  readonly results: NonNullable<CommandAnswer["results"]>;
  /** Seconds to wait before the next request. */
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

  /** True if the same request may succeed later. */
  get isPassing(): boolean {
    return [429, 502, 503, 504].includes(this.status);
  }
}

/** A client of the service at `baseUrl`. The other options (`fetch`, `headers`, ...) are those of openapi-fetch. */
export function createPlaudit({ apiKey, headers, ...options }: PlauditOptions): Plaudit {
  const client = createClient<paths>({ ...options, headers: mergeHeaders(headers, { "X-API-Key": apiKey }) });
  client.use({
    async onResponse({ response }) {
      // 304 is no problem: an unchanged response to `If-None-Match` has no data.
      if (!response.ok && response.status !== 304) throw new PlauditError(await problemOf(response), response);
    },
  });
  // `Plaudit` has the types of each path. Those of openapi-fetch accept misspelt fields in bodies.
  const request = client.request as (verb: string, path: string, options?: object) => Promise<Answer<unknown>>;
  const parseAsByPath = NOT_JSON as Record<string, "blob" | "text">;
  const call = <V extends Verb>(verb: V) =>
    ((path, options) => request(verb, path, { parseAs: parseAsByPath[path], ...options })) as Call<V>;

  async function command(verb: string, path: string, options: CommandOptions & RequestOptions = {}) {
    const { wait, idempotencyKey = crypto.randomUUID(), attempts = ATTEMPTS, headers, middleware = [], ...rest } = options;
    const commandHeaders = { "Idempotency-Key": idempotencyKey, Prefer: wait === undefined ? undefined : `wait=${wait}` };
    // An invalid key or address fails before there is a request, and fails again at each attempt.
    let isRequest = false;
    const noteRequest: Middleware = {
      onRequest({ request }) {
        isRequest = request.url.startsWith("http");
      },
    };
    for (let attempt = 1; ; attempt++) {
      try {
        const answer = await request(verb, path, {
          ...rest,
          middleware: [...middleware, noteRequest],
          headers: mergeHeaders(headers, commandHeaders),
        });
        return answer.data as CommandAnswer;
      } catch (error) {
        const pause = isRequest && attempt < attempts ? pauseAfter(error) : undefined;
        if (pause === undefined) throw error;
        await sleep(pause, (rest as { signal?: AbortSignal }).signal);
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
      const upload = { body: image, bodySerializer: (body: Blob) => body, headers: { "Content-Type": image.type || BINARY } };
      return command("POST", "/api/images", { ...options, ...upload, ...(userId && { params: { query: { userId } } }) });
    },
  };
}

/** Seconds until a command may be sent again; undefined if a retry is of no use. */
function pauseAfter(error: unknown): number | undefined {
  if (error instanceof PlauditError) {
    const pause = error.retryAfter ?? DEFAULT_PAUSE_S;
    return error.isPassing && pause <= LONGEST_PAUSE_S ? pause : undefined;
  }
  // `fetch` rejects with it without a response: the command may have been accepted, which its key makes safe to repeat.
  return error instanceof TypeError ? DEFAULT_PAUSE_S : undefined;
}

/** Resolves after this time; rejects if `signal` aborts earlier. */
function sleep(seconds: number, signal?: AbortSignal): Promise<void> {
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
