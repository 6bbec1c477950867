// Elements of a page, and requests to the service.

const PATIENCE_MS = 60_000;

export const one = (selector, within = document) => within.querySelector(selector);
export const all = (selector, within = document) => [...within.querySelectorAll(selector)];
export const create = (name, fields) => Object.assign(document.createElement(name), fields);
export const reveal = (each) => each?.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });

/** navigate, reload, or back_forward. */
export const arrival = performance.getEntriesByType("navigation")[0]?.type;

/** A random id. Pages loaded over plain HTTP have no crypto.randomUUID. */
export const random = () => crypto.getRandomValues(new Uint32Array(4)).join("-");

/** A storage of the browser; if it denies that, an object of this page. */
export const stored = (name) => { try { return window[name]; } catch { return {}; } };

const ask = (address, options) =>
  fetch(address, { headers: { Accept: "application/json" }, signal: AbortSignal.timeout(PATIENCE_MS), ...options });

/** Post a form. Returns the JSON answer, or throws an Error with a message to show. */
export async function send(address, fields) {
  const failed = (message) => () => { throw new Error(message); };
  const response = await ask(address, { method: "POST", body: new URLSearchParams(fields) })
    .catch(failed("The service is unavailable. Decide again later."));
  const told = await response.json().catch(failed("The response can't be read. Reload this page."));
  if (!response.ok) throw new Error(told.message ?? told.detail);
  return told;
}

/** Is the visitor still signed in? A response of status 401 if not, null if the service is unreachable. */
export const checkSession = () => ask("/console", { redirect: "manual" }).catch(() => null);

/** A link to sign in that leaves the page open. */
export const signIn = () =>
  create("a", { href: "/console/sign-in", target: "_blank", textContent: "Sign in in another tab" });

/** The address of this list from its beginning, without confirmations. */
export function fromTheTop() {
  const here = new URL(location.href);
  for (const name of ["after", "focus", "done"]) here.searchParams.delete(name);
  return here;
}
