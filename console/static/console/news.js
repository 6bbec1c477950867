// Server-sent events about the reviews of the queue: news.

import { checkSession, create, fromTheTop, one, send, signIn } from "./page.js";
import { SKEW_MS } from "./row.js";

const AT_ONCE_MS = 1_000;
const AGAIN_MS = 15_000;
const RARELY_MS = 240_000;
const MOST_HEARD = 500;

/** "12 new reviews": a link, so that no row moves under the cursor. */
class Fresh {
  constructor(place, queue, news) {
    this.place = place;
    this.queue = queue;
    this.news = news;
    this.query = new URL(location.href).searchParams;
    this.isNarrowed = this.query.has("only") || this.query.has("q");
    // Ids that may belong to this list, and those of them that do.
    this.heard = new Set();
    this.fresh = new Set();
    // The last question before the latest news of each review.
    this.turns = new Map();
    this.turn = 0;
    this.drawn = 0;
    this.link = create("a");
    this.isRefused = false;
  }

  draw() {
    const { size } = this.fresh;
    if (size === this.drawn) return;
    this.drawn = size;
    // The same link, as it may have the focus.
    Object.assign(this.link, { href: fromTheTop(), textContent: `${size} new review${size > 1 ? "s" : ""}` });
    if (!size) this.link.remove();
    else if (!this.link.isConnected) this.place.append(this.link);
  }

  tell(ids) {
    for (const id of ids) {
      if (this.queue?.row(id)) continue;
      this.heard.add(id);
      this.fresh.add(id);
    }
    this.draw();
  }

  /** A review was decided. */
  leave(id) {
    this.turns.set(id, this.turn);
    this.forget(id);
  }

  forget(id) {
    this.heard.delete(id);
    if (this.fresh.delete(id)) this.draw();
  }

  /** A review arrived, or waits again. */
  come({ id, store }) {
    const wanted = this.query.get("store");
    if (this.queue?.row(id) || (wanted && store !== wanted)) return;
    this.turns.set(id, this.turn);
    this.heard.add(id);
    if (this.isNarrowed) this.askIn(this.isRefused ? AGAIN_MS : AT_ONCE_MS);
    else this.tell([id]);
  }

  /** Ask which reviews are new: some come between the page and its first news. False without an answer. */
  async ask(hasMissed) {
    const known = [...this.heard].slice(-MOST_HEARD);
    const fields = [["since", this.place.dataset.since], ...known.map((id) => ["ids", id])];
    if (hasMissed) fields.push(["missed", "1"], ...(this.queue?.rows ?? []).map((row) => ["rows", row.data.id]));
    const turn = this.turn += 1;
    const told = await send(`/console/queue/since?${this.query}`, fields).catch(() => null);
    if (!told) return false;
    // News since the question are newer than its answer.
    const isCurrent = (id) => !(this.turns.get(id) >= turn);
    for (const id of known) if (isCurrent(id) && !told.ids.includes(id)) this.forget(id);
    this.tell(told.ids.filter(isCurrent));
    return true;
  }

  /** Only the service knows what a filter finds: ask it once for all reviews of a moment. */
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
    // News may have been missed until the next connection.
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

  /** Only visible pages connect: browsers open at most six connections to a host. */
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

  /** Repeat a question until it is answered, or the connection ends: the next one asks again. */
  async insist(question) {
    const opening = this.openings;
    let pause = AGAIN_MS;
    while (opening === this.openings && this.isOpen && !(await question())) {
      await new Promise((resolve) => setTimeout(resolve, pause));
      pause = Math.min(2 * pause, RARELY_MS);
    }
  }

  hear(kind, told) {
    if (kind !== "claimed") htmx.trigger(document.body, "changed");
    // The page shows what is older: a process that has just started repeats it.
    const since = Date.parse(this.place.dataset.since);
    const isSince = told.at >= since;
    const isBack = told.status === "New" || (kind === "reported" && this.isReported);
    if (kind === "new" || (isBack && isSince)) this.fresh.come(told);
    // A decided review isn't new any more.
    else if (kind === "decided" && told.status !== "New") this.fresh.leave(told.id);
    // The clock of a worker may be behind that of the API. Repeated news of a row do no harm.
    if (kind === "claimed" || kind === "decided" || (kind === "edited" && isSince)) {
      this.queue?.hear(kind, told, told.at >= since - SKEW_MS);
    }
  }

  /** Browsers reconnect by themselves, unless the answer was something else. */
  async failed(source) {
    if (source.readyState !== EventSource.CLOSED) return;
    setTimeout(() => this.connect(), AGAIN_MS);
    if ((await checkSession())?.status !== 401 || one(".signed-out", this.place)) return;
    const told = create("b", { className: "signed-out bad-text" });
    told.append("You are signed out: this page gets no updates. ", signIn());
    this.place.prepend(told);
  }
}
