// The news of an open queue.

import { all, asked, create, fromTheTop, one, send, signIn } from "./page.js";
import { SKEW_MS } from "./row.js";

const AT_ONCE_MS = 1_000;
const AGAIN_MS = 15_000;
const RARELY_MS = 240_000;
const MOST_HEARD = 500;

/** "12 new reviews": a link, so that no row is moved under the cursor. */
class Fresh {
  constructor(place, queue, news) {
    this.place = place;
    this.queue = queue;
    this.news = news;
    this.query = new URL(location.href).searchParams;
    this.isNarrowed = this.query.has("only") || this.query.has("q");
    // What was heard of and may be new here, and of that what is.
    this.heard = new Set();
    this.fresh = new Set();
    this.drawn = 0;
    this.isRefused = false;
  }

  draw() {
    const { size } = this.fresh;
    if (size === this.drawn) return;
    this.drawn = size;
    const link = create("a", { href: fromTheTop(), textContent: `${size} new review${size > 1 ? "s" : ""}` });
    this.place.replaceChildren(...all(".signed-out", this.place), ...(size ? [link] : []));
  }

  tell(ids) {
    for (const id of ids) {
      if (this.queue?.row(id)) continue;
      this.heard.add(id);
      this.fresh.add(id);
    }
    this.draw();
  }

  forget(id) {
    this.heard.delete(id);
    if (this.fresh.delete(id)) this.draw();
  }

  /** It came, or came back. */
  come({ id, store }) {
    const wanted = this.query.get("store");
    if (this.queue?.row(id) || (wanted && store !== wanted)) return;
    this.heard.add(id);
    if (this.isNarrowed) this.askIn(this.isRefused ? AGAIN_MS : AT_ONCE_MS);
    else this.tell([id]);
  }

  /** Also the first time: reviews come between the page and its news. False where there is no answer. */
  async ask(hasMissed) {
    const known = [...this.heard].slice(-MOST_HEARD);
    const fields = [["since", this.place.dataset.since], ...known.map((id) => ["ids", id])];
    if (hasMissed) fields.push(["missed", "1"], ...(this.queue?.rows ?? []).map((row) => ["rows", row.data.id]));
    const told = await send(`/console/queue/since?${this.query}`, fields).catch(() => null);
    if (!told) return false;
    for (const id of known) if (!told.ids.includes(id)) this.forget(id);
    this.tell(told.ids);
    return true;
  }

  /** Only the service knows what a filter finds: it is asked, once for all that come in a moment. */
  askIn(pause) {
    const at = Date.now() + pause;
    if (this.asking && this.askingAt <= at) return;
    clearTimeout(this.asking);
    this.askingAt = at;
    this.asking = setTimeout(async () => {
      this.asking = null;
      this.isRefused = !(await this.ask(false));
      if (this.isRefused && this.news.isOpen) this.askIn(Math.min(Math.max(2 * pause, AGAIN_MS), RARELY_MS));
    }, pause);
  }
}

export class News {
  constructor(place, queue) {
    this.place = place;
    this.queue = queue;
    this.fresh = new Fresh(place, queue, this);
    this.isReported = this.fresh.query.get("only") === "reported";
    this.openings = 0;
    // Away until now: some may have been missed.
    this.isBack = document.hidden;
    document.addEventListener("visibilitychange", () => {
      this.isBack ||= document.hidden;
      if (document.hidden) this.source?.close();
      else this.connect();
    });
    window.addEventListener("pagehide", () => this.source?.close());
    this.connect();
  }

  get isOpen() { return this.source.readyState === EventSource.OPEN; }

  /** A browser has six connections to one host: hidden pages leave them to the one that is looked at. */
  connect() {
    if (document.hidden || (this.source && this.source.readyState !== EventSource.CLOSED)) return;
    this.source = new EventSource("/console/queue/news");
    this.source.addEventListener("open", () => this.opened());
    for (const kind of ["new", "reported", "claimed", "decided", "edited"]) {
      this.source.addEventListener(kind, ({ data }) => this.hear(kind, JSON.parse(data)));
    }
    this.source.addEventListener("error", ({ target }) => this.failed(target));
  }

  opened() {
    one(".signed-out", this.place)?.remove();
    this.openings += 1;
    const hasMissed = this.isBack;
    this.insist(() => this.fresh.ask(hasMissed));
    if (hasMissed && this.queue) this.insist(() => this.queue.catchUp());
    this.isBack = true;
  }

  /** Until it is answered, or the news have ended: once they come again, all is asked anew. */
  async insist(question) {
    const opening = this.openings;
    for (let pause = AGAIN_MS; opening === this.openings && this.isOpen && !(await question()); pause = Math.min(2 * pause, RARELY_MS)) {
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }

  hear(kind, told) {
    if (kind !== "claimed") htmx.trigger(document.body, "changed");
    // What is older stands in the page: the news of a process that has just begun tell it again.
    const since = Date.parse(this.place.dataset.since);
    const isSince = told.at >= since;
    const isBackHere = told.status === "New" && isSince;
    if (kind === "new" || isBackHere || (kind === "reported" && this.isReported && isSince)) this.fresh.come(told);
    // What is decided isn't new any more.
    else if (kind === "decided" && told.status !== "New") this.fresh.forget(told.id);
    // The clock of a worker may be behind that of the facade. What a row says already does no harm.
    if (kind === "claimed" || kind === "decided" || (kind === "edited" && isSince)) this.queue?.hear(kind, told, told.at >= since - SKEW_MS);
  }

  /** A browser connects again by itself, unless it was answered by something else. */
  async failed(source) {
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => this.connect(), AGAIN_MS);
    if ((await asked())?.status !== 401 || one(".signed-out", this.place)) return;
    const told = create("b", { className: "signed-out bad-text" });
    told.append("You are signed out: this page gets no updates. ", signIn());
    this.place.prepend(told);
  }
}
