// The keys of the console, and the news of an open queue. Without this script every page works by its links and forms.

const QUEUE = "/console/queue";
const LIVE_MS = 400;
const AT_ONCE_MS = 1_000;
const AGAIN_MS = 15_000;
const RARELY_MS = 240_000;
const SKEW_MS = 5_000;
const PATIENCE_MS = 60_000;
const REQUESTS = 3;
const TOGETHER = 200;
const CLAIM_MS = 120_000;
const MOST_HEARD = 500;
const BACK = { New: "reset", Approved: "approve", Rejected: "reject" };
const AFTER = { approve: "Approved", reject: "Rejected", reset: "New" };
const CHANGED = "It was changed meanwhile: load the page anew.";
const ACCEPTED = "Accepted; it takes effect in a moment.";
const DOING = { approve: "Approving", reject: "Rejecting", reset: "Back to the queue" };

const one = (selector, within = document) => within.querySelector(selector);
const all = (selector, within = document) => [...within.querySelectorAll(selector)];

/** 128 random bits. Pages that came by plain HTTP have no crypto.randomUUID. */
const random = () => [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");

const desk = (() => {
  try {
    return (sessionStorage.desk ??= random());
  } catch {
    return random();
  }
})();

/** A setting of this browser, kept where it may be; elsewhere it holds for this page. */
const kept = {
  here: new Map(),
  get(name) {
    if (this.here.has(name)) return this.here.get(name);
    try { return localStorage.getItem(name); } catch { return null; }
  },
  set(name, value) { try { localStorage.setItem(name, value); } catch { this.here.set(name, value); } },
};

/** Send fields to an address of the console. Returns what it answers, or throws an Error with its message. */
async function send(address, fields) {
  let response;
  try {
    response = await fetch(address, {
      method: "POST",
      headers: { Accept: "application/json" },
      body: new URLSearchParams(fields),
      signal: AbortSignal.timeout(PATIENCE_MS),
    });
  } catch {
    throw new Error("The service can't be reached. Decide again once it can.");
  }
  if (!response.headers.get("content-type")?.includes("json")) throw new Error("That can't be read. Load this page anew.");
  const told = await response.json();
  if (!response.ok) throw new Error(told.message);
  return told;
}

/** The answer to a visitor who asks if he is still signed in: 401 if not, null where the service can't be reached. */
const asked = () =>
  fetch("/console", { headers: { Accept: "application/json" }, redirect: "manual", signal: AbortSignal.timeout(PATIENCE_MS) }).catch(() => null);

/** The way to sign in that leaves the page as it is. */
const signIn = () => Object.assign(document.createElement("a"), { href: "/console/sign-in", target: "_blank", textContent: "Sign in in another tab" });

/** The address of this list from its beginning, without what was told once. */
function fromTheTop() {
  const here = new URL(location.href);
  for (const name of ["after", "focus", "done"]) here.searchParams.delete(name);
  return here;
}

/** The error of a decision that somebody else's has made void. */
const final = (message) => Object.assign(new Error(message), { isFinal: true });

/** Decisions on their way. A browser opens six connections to one host, and each decision is waited for: those that are
 *  made while REQUESTS are out go together with the next one. */
class Decisions {
  constructor() {
    this.waiting = [];
    this.out = 0;
  }

  /** Returns what became of a decision, or throws an Error with the message of the service. */
  make(id, seen, action, expected, reasonCode, isUndoing) {
    return new Promise((resolve, reject) => {
      const like = JSON.stringify({ action, expected, reasonCode: reasonCode || undefined, undoing: isUndoing ? "1" : undefined });
      this.waiting.push({ id, seen, like, resolve, reject });
      this.go();
    });
  }

  async go() {
    if (!this.waiting.length || this.out >= REQUESTS) return;
    const { like } = this.waiting[0];
    const together = this.waiting.filter((each) => each.like === like).slice(0, TOGETHER);
    this.waiting = this.waiting.filter((each) => !together.includes(each));
    this.out += 1;
    try {
      const fields = [...Object.entries(JSON.parse(like)), ["key", random()], ...together.flatMap(({ id, seen }) => [["ids", id], [`seen-${id}`, seen]])];
      const { results } = await send(`${QUEUE}/decisions`, fields);
      const byId = new Map(results.map((each) => [each.id, each]));
      for (const { id, resolve } of together) resolve(byId.get(id) ?? { outcome: "accepted" });
    } catch (error) {
      for (const { reject } of together) reject(error);
    } finally {
      this.out -= 1;
      this.go();
    }
  }
}

/** The list of the queue: one row is in focus, decisions are shown at once and settle when they have taken effect. */
class Queue {
  constructor(list) {
    this.list = list;
    this.reasons = list.dataset.reasons.split(" ");
    this.me = list.dataset.me ?? null;
    this.done = [];
    this.pending = new Map();
    this.others = new Map();
    this.picked = null;
    this.decisions = new Decisions();
    list.addEventListener("click", (event) => {
      const row = event.target.closest("#list > li");
      if (row && !event.target.closest("a, button, select")) this.focus(row);
    });
    list.addEventListener("change", () => this.count());
    document.addEventListener("submit", (event) => {
      if (!event.target.matches("form[data-decide]")) return;
      event.preventDefault();
      const { target: form, submitter } = event;
      const row = form.closest("#list > li") ?? this.row(form.dataset.id);
      const action = submitter?.value;
      if (row && !row.classList.contains("settled")) this.decide(row, action, action === "reject" ? form.elements.reasonCode.value : "");
    });
    window.addEventListener("beforeunload", (event) => {
      if (this.pending.size) event.preventDefault();
    });
    this.count();
    if (this.current) this.claim(this.current);
  }

  get rows() { return all(":scope > li", this.list); }
  get current() { return one(":scope > li.focus", this.list); }
  row(id) { return document.getElementById(`r-${id}`); }

  focus(row) {
    if (!row || row === this.current) return;
    const before = this.current;
    before?.classList.remove("focus");
    before?.removeAttribute("aria-current");
    row.classList.add("focus");
    row.setAttribute("aria-current", "true");
    row.scrollIntoView({ block: "nearest", behavior: "instant" });
    clearTimeout(this.looking);
    this.looking = setTimeout(() => {
      this.remember();
      const address = `/console/reviews/${encodeURIComponent(row.dataset.id)}/context`;
      document.getElementById("context").scrollTop = 0;
      htmx.ajax("GET", address, { target: "#context", source: "#context" });
      this.claim(row);
    }, 150);
  }

  /** Put the row in focus into the address: a way back leads there. */
  remember() {
    const here = new URL(location.href);
    here.searchParams.set("focus", this.current.dataset.id);
    history.replaceState(history.state, "", here);
  }

  /** Bring a row into focus, also for those who hear the page. */
  goTo(row) {
    this.focus(row);
    row?.focus({ preventScroll: true });
  }

  /** Tell others which row is in focus; one request at a time, the last row wins. */
  async claim(row) {
    this.claimed = row;
    if (this.claiming) return;
    this.claiming = true;
    for (let told = null; told !== this.claimed;) {
      told = this.claimed;
      await send(`${QUEUE}/claims`, { id: told.dataset.id, desk }).catch(() => { /* advice alone */ });
    }
    this.claiming = false;
  }

  move(by) {
    const rows = this.rows;
    this.goTo(rows[rows.indexOf(this.current) + by]);
  }

  /** The next row that waits, below the one in focus, else from the top. */
  advance() {
    const rows = this.rows;
    const at = rows.indexOf(this.current);
    const next = [...rows.slice(at + 1), ...rows.slice(0, at)].find((row) => !row.classList.contains("settled"));
    if (next) this.goTo(next);
    else this.finish();
  }

  /** All rows of the page are decided: the next ones, as soon as the decisions have taken effect. */
  async finish() {
    // Once: going to the same place again would begin anew, as often as a key is pressed.
    if (this.isFinishing) return;
    this.isFinishing = true;
    for (const row of this.rows) row.isUnread = false;
    while (this.pending.size) await Promise.allSettled(this.pending.values());
    const left = this.rows.find((row) => !row.classList.contains("settled"));
    if (left || this.rows.some((row) => row.isUnread)) {
      this.isFinishing = false;
      if (left) this.goTo(left);
      else this.offerToGoOn();
      return;
    }
    const last = this.made.at(-1);
    // As on one page: what others have decided since is none of ours to undo.
    if (last && !last.isOvertaken) {
      const { id, seen } = last.row.dataset;
      const undo = { id, seen, action: last.back, expected: last.status, reasonCode: last.reasonCode };
      document.cookie = `plaudit-undo=${encodeURIComponent(JSON.stringify(undo))}; path=${QUEUE}; max-age=60; samesite=strict`;
    }
    location.assign(fromTheTop());
  }

  /** Not before somebody can have read that one of the last decisions failed; the next key goes on, too. */
  offerToGoOn() {
    if (document.getElementById("go-on")) return;
    const told = Object.assign(document.createElement("p"), { id: "go-on", className: "notice plain", role: "status" });
    const link = Object.assign(document.createElement("a"), { href: fromTheTop(), textContent: "Go on" });
    link.addEventListener("click", (event) => {
      event.preventDefault();
      this.advance();
    });
    told.append("Not every decision of this page was made; each row says what became of it. ", link);
    this.list.after(told);
  }

  say(row, text, isBad = false) {
    const outcome = one(".outcome", row);
    outcome.textContent = text;
    outcome.classList.toggle("bad-text", isBad);
  }

  decide(row, action, reasonCode = "") {
    if (!row || this.pending.has(row)) return;
    // Somebody has decided already, perhaps in this moment: a key goes on, and never overwrites it.
    if (row.classList.contains("settled") && action !== "reset") {
      this.advance();
      return;
    }
    const before = row.dataset.status;
    const made = { row, back: BACK[before], status: AFTER[action], reasonCode: row.dataset.reason, wasSettled: row.classList.contains("settled") };
    // In the order of the keys: answers have another one.
    if (before !== made.status) this.done.push(made);
    row.isUnread = false;
    row.classList.remove("failed");
    row.classList.add("settled");
    this.say(row, `${DOING[action]}${reasonCode ? `: ${reasonCode}` : ""} …`);
    this.hold(row, this.send(row, action, before, reasonCode).then(
      () => {
        row.dataset.reason = reasonCode;
        if (action === "reset") row.classList.remove("settled");
      },
      (error) => {
        if (error.isFinal) this.drop(made);
        // It may have been taken all the same: then its news are to come.
        else made.isLost = true;
      },
    ));
    if (this.current?.classList.contains("settled")) this.advance();
  }

  /** A decision, here or of others: what was asked before is older, and nothing that was decided before is awaited. */
  begin(row) {
    row.turn = (row.turn ?? 0) + 1;
    row.awaited = null;
    row.edit = null;
  }

  /** Nobody decides about a row until this work is over. */
  hold(row, work) {
    this.pending.set(row, work);
    work.finally(() => {
      if (this.pending.get(row) !== work) return;
      this.pending.delete(row);
      this.tellOthers(row);
      if (row.edit) this.hear("edited", row.edit, true);
    });
  }

  /** The decisions that were made here, as far as it is known. */
  get made() { return this.done.filter((each) => !each.isLost); }

  /** A decision that was made here, and whose answer was lost, has been taken after all. Returns false without one. */
  recover(row, by, status) {
    const found = this.done.find((made) => made.isLost && made.row === row && made.status === status && by === this.me);
    if (found) found.isLost = false;
    return found !== undefined;
  }

  /** There is nothing to undo of it any more. */
  drop(made) { this.done = this.done.filter((each) => each !== made); }

  async send(row, action, expected, reasonCode, isUndoing = false) {
    const { id } = row.dataset;
    this.others.delete(id);
    this.begin(row);
    // The news that tell of it are to come, perhaps only once the next decision has been made.
    const isTold = AFTER[action] !== expected;
    if (isTold) row.echoes = [...(row.echoes ?? []), AFTER[action]];
    try {
      const told = await this.decisions.make(id, row.dataset.seen, action, expected, reasonCode, isUndoing);
      const heard = this.others.get(id);
      // Its news may be here before its answer.
      const isHeard = isTold && !row.echoes.includes(AFTER[action]);
      const isAccepted = told.outcome === "accepted" && !isHeard;
      if (told.reason === "status-changed" || (isAccepted && heard && heard.status !== AFTER[action])) {
        row.dataset.status = told.status ?? heard?.status ?? "";
        row.dataset.reason = heard?.reason ?? "";
        const by = told.moderator ?? heard?.by ?? null;
        const now = row.dataset.status || "deleted";
        this.recover(row, by, told.status);
        throw final(this.overtaken(by, now));
      }
      if (told.reason === "changed") throw final(CHANGED);
      if (told.reason === "kept") throw final("Somebody has kept it meanwhile: load the page anew.");
      if (told.outcome === "not-found") throw final("It isn't there any more.");
      if (told.outcome === "refused") throw new Error(`Nothing was changed: ${told.reason}.`);
      row.dataset.status = AFTER[action];
      // The status until it takes effect.
      if (isAccepted && isTold) row.awaited = expected;
      // What others did before this one took effect: its own news are to come behind theirs.
      if (isTold && !isHeard && !isAccepted) this.others.delete(id);
      // The sign of open reports: this decision has settled them.
      row.dataset.seen = row.dataset.seen.replace("!", "");
      this.say(row, isAccepted ? ACCEPTED : `${AFTER[action]}${reasonCode ? `: ${reasonCode}` : ""}.`);
    } catch (error) {
      // The answer alone was lost.
      if (isTold && !error.isFinal && !row.echoes.includes(AFTER[action])) {
        row.dataset.status = AFTER[action];
        row.dataset.seen = row.dataset.seen.replace("!", "");
        this.say(row, `${AFTER[action]}.`);
        return;
      }
      if (isTold) row.echoes.pop();
      row.isUnread = true;
      row.classList.add("failed");
      row.classList.toggle("settled", error.isFinal === true);
      this.say(row, error.message, true);
      throw error;
    }
  }

  /** The words for a decision that somebody has made before. */
  overtaken(by, now) {
    if (by !== null && by === this.me) return `It is ${now} already: you have decided so.`;
    return `${by ?? "Somebody else"} was faster: it is ${now}. Nothing was changed.`;
  }

  undo() {
    const last = this.made.filter((each) => !each.isTakenBack).at(-1);
    if (!last) {
      one("form.notice [name=action]")?.click();
      return;
    }
    last.isTakenBack = true;
    this.goTo(last.row);
    this.hold(last.row, this.takeBack(last, this.pending.get(last.row)));
  }

  /** Undo a decision once it has been made; of one that failed there is nothing to undo. */
  async takeBack(last, making) {
    await making;
    this.tellOthers(last.row);
    if (!this.made.includes(last)) return;
    if (last.isOvertaken) {
      const { by, status } = this.others.get(last.row.dataset.id) ?? {};
      this.say(last.row, this.overtaken(by ?? null, (status ?? last.row.dataset.status) || "deleted"));
      last.row.isUnread = true;
      this.drop(last);
      return;
    }
    this.say(last.row, "Undoing …");
    const reasonCode = (last.back === "reject" && last.reasonCode) || "";
    try {
      await this.send(last.row, last.back, last.status, reasonCode, true);
    } catch (error) {
      last.isTakenBack = false;
      if (error.isFinal) this.drop(last);
      return;
    }
    this.drop(last);
    last.row.dataset.reason = reasonCode;
    last.row.classList.remove("failed");
    last.row.classList.toggle("settled", last.wasSettled);
    this.say(last.row, "Undone: it is as it was before.");
  }

  select(isRange) {
    const rows = this.rows;
    const at = rows.indexOf(this.current);
    if (at < 0) return;
    const from = isRange && this.picked !== null ? this.picked : at;
    const on = isRange || !one("input[type=checkbox]", rows[at]).checked;
    for (const row of rows.slice(Math.min(from, at), Math.max(from, at) + 1)) one("input[type=checkbox]", row).checked = on;
    this.picked = at;
    this.count();
  }

  count() {
    const number = all("input[name=ids]:checked", this.list).length;
    one("#selected").textContent = number;
    one("#bulk").classList.toggle("has-selected", number > 0);
  }

  /** What others do. `isSince`: it isn't older than the page, where it would stand already. */
  hear(kind, told, isSince) {
    const row = this.row(told.id);
    if (!row) return;
    if (kind === "claimed") {
      if (told.desk === desk) return;
      row.classList.add("claimed");
      one(".by", row).textContent = `with ${told.by ?? "somebody else"}`;
      clearTimeout(row.claim);
      row.claim = setTimeout(() => this.unclaim(row), CLAIM_MS);
      // Whoever looks at another review has left the one before.
      for (const other of this.rows) if (other !== row && other.desk === told.desk) this.unclaim(other);
      row.desk = told.desk;
      return;
    }
    if (kind === "edited") {
      // Its author brings a decided one back.
      const isBack = told.status === "New" && row.dataset.status !== "New";
      row.edit = this.pending.has(row) ? told : null;
      if (row.edit || (row.classList.contains("settled") && !isBack)) return;
      if (isBack) {
        this.others.delete(told.id);
        this.isOfOthers(row, "New");
      }
      row.classList.add("settled");
      this.say(row, CHANGED);
      return;
    }
    this.unclaim(row);
    if (isSince && !this.isKnown(row, told)) this.decided(row, told);
  }

  /** True for news of a decision that was made here, for news that were heard before, and for older ones than those: a
   *  process that begins tells those of the last minutes again. */
  isKnown(row, told) {
    const name = `${told.at} ${told.status}`;
    row.told ??= new Set();
    if (row.told.has(name) || told.at < row.latest - SKEW_MS) return true;
    row.told.add(name);
    row.latest = Math.max(row.latest ?? 0, told.at);
    this.begin(row);
    const echoes = row.echoes ?? [];
    const at = told.by === this.me ? echoes.indexOf(told.status) : -1;
    if (at < 0) return false;
    // News of one review come in their order: those before this one were missed, and others decided before it.
    echoes.splice(0, at + 1);
    this.others.delete(told.id);
    // Where nobody signs in, it may be somebody else's: the last one that was made here is as the row says.
    return echoes.length > 0 || this.pending.has(row) || row.dataset.status === told.status;
  }

  decided(row, told) {
    this.others.set(told.id, told);
    if (!this.pending.has(row)) this.tellOthers(row);
  }

  /** The last decision of others, if there is one since the last of ours. */
  tellOthers(row) {
    const told = this.others.get(row.dataset.id);
    if (!told) return;
    row.dataset.reason = told.reason ?? "";
    const isSame = row.dataset.status === (told.status ?? "");
    if (isSame && told.by === this.me) return;
    if (this.recover(row, told.by, told.status)) {
      this.others.delete(row.dataset.id);
      row.dataset.status = told.status;
      row.classList.remove("failed");
      row.classList.toggle("settled", told.status !== "New");
      this.say(row, `${told.status}.`);
      return;
    }
    this.isOfOthers(row, told.status ?? "");
    // Theirs has taken effect: whether ours will isn't known.
    if (isSame && one(".outcome", row).textContent !== ACCEPTED) return;
    row.classList.toggle("settled", told.status !== "New");
    this.say(row, `${told.by ?? "Somebody else"}: ${told.status ?? "deleted"}.`);
  }

  /** Its status is that of a decision by others, which no undoing of ours may take back, though it may be the same. */
  isOfOthers(row, status) {
    row.dataset.status = status;
    for (const each of this.done) if (each.row === row) each.isOvertaken = true;
  }

  /** What others did while this page heard no news. Returns false where there is no answer, or none about some rows. */
  async catchUp() {
    const isWhole = !this.pending.size;
    const rows = this.rows.filter((row) => !this.pending.has(row));
    const turns = new Map(rows.map((row) => [row, row.turn]));
    const fields = rows.flatMap(({ dataset: { id, seen } }) => [["ids", id], [`seen-${id}`, seen]]);
    const told = await send(`${QUEUE}/rows`, fields).catch(() => null);
    for (const each of told?.results ?? []) {
      const row = this.row(each.id);
      // It was decided meanwhile, or before and that hasn't taken effect: the answer is older.
      if (row.turn !== turns.get(row) || (row.awaited && row.awaited === each.status)) continue;
      row.awaited = null;
      if (each.isChanged && each.status === "New") {
        this.hear("edited", each, true);
        continue;
      }
      const isDecided = each.status !== (row.dataset.status || null);
      // Somebody else's that comes to the same as one that was made here.
      const isAgain = each.by !== this.me && this.done.some((made) => made.row === row);
      if (isDecided || isAgain) {
        this.unclaim(row);
        this.decided(row, each);
      } else if (each.isChanged) {
        this.hear("edited", each, true);
      }
    }
    return isWhole && told !== null;
  }

  unclaim(row) {
    row.classList.remove("claimed");
    row.desk = null;
    one(".by", row).textContent = "";
  }
}

/** "12 new reviews": a link, so that no row is moved under the cursor. */
function listen(queue) {
  const place = document.getElementById("news");
  if (!place || !window.EventSource) return;
  const query = new URL(location.href).searchParams;
  const store = query.get("store");
  const isReported = query.get("only") === "reported";
  const isNarrowed = query.has("only") || query.has("q");
  let asking = null;
  let askingAt = 0;
  let isRefused = false;
  // What was heard of and may be new here, and of that what is.
  const heard = new Set();
  const fresh = new Set();
  let drawn = 0;
  const draw = () => {
    if (fresh.size === drawn) return;
    drawn = fresh.size;
    const link = Object.assign(document.createElement("a"), { href: fromTheTop() });
    link.textContent = `${fresh.size} new review${fresh.size > 1 ? "s" : ""}`;
    place.replaceChildren(...all(".signed-out", place), ...(fresh.size ? [link] : []));
  };
  const tell = (ids) => {
    for (const id of ids) {
      if (queue?.row(id)) continue;
      heard.add(id);
      fresh.add(id);
    }
    draw();
  };
  const forget = (id) => {
    heard.delete(id);
    if (fresh.delete(id)) draw();
  };
  // Also the first time: reviews come between the page and its news. False where there is no answer.
  const ask = async (hasMissed) => {
    const known = [...heard].slice(-MOST_HEARD);
    const fields = [["since", place.dataset.since], ...known.map((id) => ["ids", id])];
    if (hasMissed) fields.push(["missed", "1"], ...(queue?.rows ?? []).map((row) => ["rows", row.dataset.id]));
    const told = await send(`${QUEUE}/since?${query}`, fields).catch(() => null);
    if (!told) return false;
    for (const id of known) if (!told.ids.includes(id)) forget(id);
    tell(told.ids);
    return true;
  };
  // Only the service knows what a filter finds: it is asked, once for all that come in a moment.
  const askIn = (pause) => {
    const at = Date.now() + pause;
    if (asking && askingAt <= at) return;
    clearTimeout(asking);
    askingAt = at;
    asking = setTimeout(async () => {
      asking = null;
      isRefused = !(await ask(false));
      if (isRefused && source.readyState === EventSource.OPEN) askIn(Math.min(Math.max(2 * pause, AGAIN_MS), RARELY_MS));
    }, pause);
  };
  // It came, or came back.
  const come = (told) => {
    if (queue?.row(told.id) || (store && told.store !== store)) return;
    heard.add(told.id);
    if (isNarrowed) askIn(isRefused ? AGAIN_MS : AT_ONCE_MS);
    else tell([told.id]);
  };
  let source = null;
  let openings = 0;
  // Until it is answered, or the news have ended: once they come again, all is asked anew.
  const insist = async (question) => {
    const opening = openings;
    for (let pause = AGAIN_MS; opening === openings && source.readyState === EventSource.OPEN && !(await question()); pause = Math.min(2 * pause, RARELY_MS)) {
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  };
  let isBack = document.hidden;
  // A browser has six connections to one host: hidden pages leave them to the one that is looked at.
  const connect = () => {
    if (document.hidden || (source && source.readyState !== EventSource.CLOSED)) return;
    source = new EventSource(`${QUEUE}/news`);
    source.addEventListener("open", () => {
      one(".signed-out", place)?.remove();
      openings += 1;
      const hasMissed = isBack;
      insist(() => ask(hasMissed));
      if (hasMissed && queue) insist(() => queue.catchUp());
      isBack = true;
    });
    for (const kind of ["new", "reported", "claimed", "decided", "edited"]) {
      source.addEventListener(kind, (event) => {
        const told = JSON.parse(event.data);
        // What is older stands in the page: the news of a process that has just begun tell it again.
        const since = Date.parse(place.dataset.since);
        const isSince = told.at >= since;
        const isBackHere = told.status === "New" && isSince;
        if (kind === "new" || isBackHere || (kind === "reported" && isReported && isSince)) come(told);
        // What is decided isn't new any more.
        else if (kind === "decided" && told.status !== "New") forget(told.id);
        // The clock of a worker may be behind that of the facade. What a row says already does no harm.
        if (kind === "claimed" || kind === "decided" || (kind === "edited" && isSince)) queue?.hear(kind, told, told.at >= since - SKEW_MS);
      });
    }
    // A browser connects again by itself, unless it was answered by something else.
    source.addEventListener("error", async ({ target }) => {
      if (target.readyState !== EventSource.CLOSED) return;
      setTimeout(connect, AGAIN_MS);
      if ((await asked())?.status !== 401 || one(".signed-out", place)) return;
      const told = Object.assign(document.createElement("b"), { className: "signed-out bad-text" });
      told.append("You are signed out, so nothing here is new any more. ", signIn());
      place.prepend(told);
    });
  };
  document.addEventListener("visibilitychange", () => {
    isBack ||= document.hidden;
    if (document.hidden) source?.close();
    else connect();
  });
  window.addEventListener("pagehide", () => source?.close());
  connect();
}

/** Forms with something typed that wasn't sent. */
const unsent = new Set();
window.addEventListener("beforeunload", (event) => {
  if (unsent.size) event.preventDefault();
});

/** Before a form with something typed goes: is the visitor still signed in, and the service there? Otherwise it stays as
 *  it is, and says what to do. */
function keep(form) {
  let isIn = false;
  let asking = null;
  let told = null;
  const tell = (isPreview, ...words) => {
    // While somebody types, once is enough.
    if (isPreview && told) return;
    told?.remove();
    told = Object.assign(document.createElement("p"), { className: "errors", role: "alert" });
    told.append(...words);
    form.prepend(told);
  };
  form.addEventListener("input", () => unsent.add(form));
  form.addEventListener("submit", async (event) => {
    const { submitter } = event;
    const isPreview = Boolean(submitter?.formTarget);
    if (isIn) {
      isIn = false;
      if (!isPreview) unsent.delete(form);
      return;
    }
    event.preventDefault();
    // A double click sends it once; what is to be sent waits for no preview.
    if (asking && (isPreview || !asking.isPreview)) return;
    const own = asking = { isPreview };
    const response = await asked();
    if (asking !== own) return;
    asking = null;
    if (!response) {
      tell(isPreview, "The service can't be reached. Send this again once it can: nothing that you typed is lost.");
    } else if (response.status === 401) {
      tell(isPreview, "You are signed out. ", signIn(), ", then send this again: nothing that you typed is lost.");
    } else {
      told?.remove();
      told = null;
      if (isPreview) renew(one(`iframe[name="${submitter.formTarget}"]`));
      isIn = true;
      form.requestSubmit(submitter);
    }
  });
}

/** Replace a frame by a new one: what that shows first is no step that the browser's back button would take. */
function renew(frame) {
  const fresh = frame.cloneNode();
  fresh.removeAttribute("src");
  frame.replaceWith(fresh);
}

/** Keys. On a page of one review they press the buttons that are there. */
function keys(queue) {
  let rejecting = null;
  const help = document.getElementById("help");
  const shortcuts = document.getElementById("shortcuts");
  if (shortcuts) {
    shortcuts.checked = kept.get("shortcuts") !== "off";
    shortcuts.addEventListener("change", () => kept.set("shortcuts", shortcuts.checked ? "on" : "off"));
  }
  const press = (selector) => one(selector)?.click();
  const onQueue = {
    j: () => queue.move(1),
    k: () => queue.move(-1),
    a: () => queue.decide(queue.current, "approve"),
    u: () => queue.current?.dataset.status !== "New" && queue.decide(queue.current, "reset"),
    r: () => {
      if (queue.current?.classList.contains("settled")) { queue.advance(); return; }
      rejecting = queue.current;
      if (rejecting) queue.say(rejecting, `Reject: ${queue.reasons.map((each, at) => `${at + 1} ${each}`).join(", ")}. Esc: not.`);
    },
    x: () => queue.select(false),
    X: () => queue.select(true),
    z: () => queue.undo(),
    o: () => {
      if (!queue.current) return;
      queue.remember();
      location.assign(one("a.open", queue.current).href);
    },
  };
  const onReview = {
    a: () => press("#decide [value=approve]"),
    r: () => one("#decide [name=reasonCode]")?.focus(),
    u: () => press("#decide [value=reset]"),
    z: () => press("form.notice [name=action]"),
  };
  const actions = queue ? onQueue : onReview;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    // Arabic keyboards have a question mark of their own.
    if (["?", "؟"].includes(event.key) && help && !event.target.closest("input, textarea")) { help.showModal(); return; }
    if (kept.get("shortcuts") === "off" || help?.open) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    if (["Shift", "CapsLock", "AltGraph"].includes(event.key)) return;
    if (rejecting) {
      const row = rejecting;
      rejecting = null;
      // Some keyboards have their digits behind Shift.
      const digit = Number(event.key) || Number(/^(?:Digit|Numpad)(\d)$/.exec(event.code)?.[1]);
      const reason = queue.reasons[digit - 1];
      // Another row came into focus meanwhile: the digit wasn't meant for that.
      if (reason && row === queue.current) queue.decide(row, "reject", reason);
      else queue.say(row, "");
      event.preventDefault();
      return;
    }
    // Keyboards of other scripts than Latin have the letters of ours behind their own.
    const letter = /^Key([A-Z])$/.exec(event.code)?.[1];
    const isLatin = !letter || /^[ -~]+$|\p{Script=Latin}/u.test(event.key);
    const key = isLatin ? event.key : event.shiftKey ? letter : letter.toLowerCase();
    if (key === "/") {
      event.preventDefault();
      one("input[type=search]")?.focus();
    } else if (actions[key] && !(event.repeat && "arzu".includes(key))) {
      event.preventDefault();
      actions[key]();
    }
  });
}

/** Press a button by itself a moment after its form was typed in. */
function live(button) {
  let waiting;
  button.form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => button.form.requestSubmit(button), LIVE_MS);
  });
}

/** Moments in the visitor's own time, each with UTC beside it; the navigation says which time zone that is. */
function localize() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const place = document.getElementById("zone");
  if (!timeZone || timeZone === "UTC" || !place) return;
  place.textContent = `Times are in ${timeZone.replaceAll("_", " ")}.`;
  const form = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric", hour: "2-digit", minute: "2-digit" });
  for (const time of all("time.at:not([title])")) {
    const part = Object.fromEntries(form.formatToParts(new Date(time.dateTime)).map(({ type, value }) => [type, value]));
    time.title = `${time.textContent} UTC`;
    time.textContent = `${part.day} ${part.month.slice(0, 3)} ${part.year}, ${part.hour}:${part.minute}`;
  }
}

document.addEventListener("htmx:after:swap", localize);
document.addEventListener("htmx:error", ({ target }) => {
  if (target.id !== "context") return;
  target.replaceChildren(Object.assign(document.createElement("p"), { className: "hint", role: "alert", textContent: "The context can't be loaded." }));
});
// What is wrong with a form that came back: there one goes on.
one("main [aria-invalid=true]")?.focus();
// Where the navigation is a line that scrolls, the place of this page may be beyond its end.
one("nav [aria-current]")?.scrollIntoView({ block: "nearest", inline: "nearest", behavior: "instant" });
localize();
const list = document.getElementById("list");
const queue = list && new Queue(list);
if (queue || document.getElementById("news")) listen(queue);
if (queue || document.getElementById("help") || one("#decide, form.notice")) keys(queue);
// Not when somebody comes back to the page, or loads it anew: that is no wish to go on.
if (performance.getEntriesByType("navigation")[0]?.type === "navigate") document.getElementById("continue")?.requestSubmit();
for (const button of all("button[data-live]")) live(button);
for (const form of all("main form[method=post]:not([data-decide], [action='/console/sign-in']):has(textarea, input:not([type=hidden]))")) keep(form);
// At the end: where this script can't run, the forms that it stands in for stay.
document.documentElement.classList.add("scripted");
