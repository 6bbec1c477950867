// One row of the queue: a review, and what is known of it.
//
// A decision made here is in one of these states:
//   sent       shown as made; waits for its answer
//   applied    the answer: it has taken effect
//   accepted   the answer: it takes effect in a moment
//   overtaken  the answer: void, since others have decided before
//   failed     not made; can be made again
//   lost       no answer came; made, if its echo comes
//   undone     reversed by a second decision with states of its own
// Its echo is the news of it, before or after its answer. What others did before the echo is older.

import { one } from "./page.js";

export const SKEW_MS = 5_000;
const CLAIM_MS = 120_000;
const CHANGED = "It was changed in the meantime: reload the page.";
const ACCEPTED = "Accepted; it takes effect in a moment.";

/** The error of a decision that can't be made any more. */
const final = (message) => Object.assign(new Error(message), { isFinal: true });

export class Row {
  constructor(element, decisions) {
    this.element = element;
    // In the page: id, status, seen, reason.
    this.data = element.dataset;
    this.decisions = decisions;
    // The promise of a decision under way: no other is made meanwhile.
    this.work = null;
    // Counts decisions, ours and those of others: answers to earlier questions are outdated.
    this.turn = 0;
    // The status until an accepted decision takes effect.
    this.awaited = null;
    // The statuses of decisions without an echo yet, oldest first.
    this.echoes = [];
    // The last decision of others since our last one.
    this.others = null;
    // News of a changed text, heard while a decision is under way.
    this.edit = null;
    // News that were heard, and the time of the latest.
    this.heard = new Set();
    this.latest = 0;
    // The other tab that looks at it.
    this.claim = null;
    // The row shows why a decision failed, and the moderator hasn't gone on since.
    this.isUnread = false;
  }

  get isSettled() { return this.element.classList.contains("settled"); }
  set isSettled(is) {
    this.element.classList.toggle("settled", is);
    const box = one("input[type=checkbox]:checked", this.element);
    if (!is || !box) return;
    // If it stayed selected, a bulk decision would include it. The event updates the count.
    box.checked = false;
    box.dispatchEvent(new Event("change", { bubbles: true }));
  }
  set hasFailed(is) { this.element.classList.toggle("failed", is); }

  /** Its fields in a request. */
  get fields() {
    const { id, seen } = this.data;
    return [["ids", id], [`seen-${id}`, seen]];
  }

  say(text, isBad = false) {
    const outcome = one(".outcome", this.element);
    outcome.textContent = text;
    outcome.classList.toggle("bad-text", isBad);
  }

  /** News that are heard during this work are shown after it. */
  hold(work) {
    this.work = work;
    work.finally(() => {
      if (this.work !== work) return;
      this.work = null;
      this.showOthers();
      if (this.edit) this.hearEdit(this.edit);
    });
  }

  /** A new decision, ours or of others: earlier ones aren't awaited any more. */
  begin() {
    this.turn += 1;
    this.awaited = null;
    this.edit = null;
  }

  show(text) {
    this.isUnread = false;
    this.hasFailed = false;
    this.isSettled = true;
    this.say(text);
  }

  sent({ status, isChange }) {
    this.others = null;
    this.begin();
    if (isChange) this.echoes.push(status);
  }

  hasEchoed({ status, isChange }) { return isChange && !this.echoes.includes(status); }

  /** Take the answer. Throws an Error if the decision wasn't made. */
  answered(told, decision) {
    const { expected, status, why, isChange } = decision;
    const hasEchoed = this.hasEchoed(decision);
    const isAccepted = told.outcome === "accepted" && !hasEchoed;
    const isLate = isAccepted && this.others && this.others.status !== status;
    if (told.reason === "status-changed" || isLate) throw this.overtaken(told);
    if (told.reason === "text-changed") throw final(CHANGED);
    if (told.reason === "kept") throw final("Somebody has kept it in the meantime: reload the page.");
    if (told.outcome === "not-found") throw final("It no longer exists.");
    if (told.outcome === "refused") throw new Error(`Nothing was changed: ${told.reason}.`);
    if (isAccepted && isChange) this.awaited = expected;
    // Others decided before this one took effect: its echo comes after their news.
    if (isChange && !hasEchoed && !isAccepted) this.others = null;
    this.take(status, isAccepted ? ACCEPTED : `${status}${why}.`);
  }

  take(status, text = `${status}.`) {
    this.data.status = status;
    // `!` stands for open reports: this decision has settled them.
    this.data.seen = this.data.seen.replace("!", "");
    this.say(text);
  }

  overtaken(told) {
    this.data.status = told.status ?? this.others?.status ?? "";
    this.data.reason = this.others?.reason ?? "";
    const by = told.moderator ?? this.others?.by ?? null;
    this.decisions.recover(this, by, told.status);
    return final(this.tooLate(by, this.data.status));
  }

  tooLate(by, status) {
    const now = status || "deleted";
    if (by !== null && by === this.decisions.me) return `It is ${now} already, by your own decision.`;
    return `${by ?? "Somebody else"} was faster: it is ${now}. Nothing was changed.`;
  }

  failed({ message, isFinal = false }, { isChange }) {
    if (isChange) this.echoes.pop();
    this.isUnread = true;
    this.hasFailed = true;
    this.isSettled = isFinal;
    this.say(message, true);
  }

  undone(reason, wasSettled) {
    this.data.reason = reason;
    this.hasFailed = false;
    this.isSettled = wasSettled;
    this.say(`Undone: it is ${this.data.status} again.`);
  }

  notUndone() {
    const { by, status } = this.others ?? {};
    this.say(this.tooLate(by ?? null, status ?? this.data.status));
    this.isUnread = true;
  }

  hearClaim({ by, desk }) {
    this.unclaim();
    this.element.classList.add("claimed");
    one(".by", this.element).textContent = `with ${by ?? "somebody else"}`;
    this.claim = { desk, timer: setTimeout(() => this.unclaim(), CLAIM_MS) };
  }

  unclaim() {
    clearTimeout(this.claim?.timer);
    this.claim = null;
    this.element.classList.remove("claimed");
    one(".by", this.element).textContent = "";
  }

  hearEdit(told) {
    // An edit by the author makes a decided review wait again.
    const isBack = told.status === "New" && this.data.status !== "New";
    this.edit = this.work && told;
    if (this.edit || (this.isSettled && !isBack)) return;
    if (isBack) {
      this.others = null;
      this.setByOthers("New");
    }
    this.isSettled = true;
    this.say(CHANGED);
  }

  /** True for echoes, and for news that were heard before or are older: a process that starts repeats the news of the
   *  last minutes. */
  isKnown(told) {
    const name = `${told.at} ${told.status}`;
    if (this.heard.has(name) || told.at < this.latest - SKEW_MS) return true;
    this.heard.add(name);
    this.latest = Math.max(this.latest, told.at);
    this.begin();
    const at = told.by === this.decisions.me ? this.echoes.indexOf(told.status) : -1;
    if (at < 0) return false;
    // News of one review are in order: earlier echoes were missed, and what others did is older.
    this.echoes.splice(0, at + 1);
    this.others = null;
    // Without sign-in it may be of somebody else: our last decision has the status of the row.
    const isOurs = this.data.status === told.status;
    if (isOurs) this.takeEffect(told.status);
    return this.echoes.length > 0 || this.work !== null || isOurs;
  }

  /** An accepted decision has taken effect. */
  takeEffect(status) {
    if (one(".outcome", this.element).textContent === ACCEPTED) this.say(`${status}.`);
  }

  hearOthers(told) {
    this.others = told;
    if (!this.work) this.showOthers();
  }

  showOthers() {
    const told = this.others;
    if (!told) return;
    this.data.reason = told.reason ?? "";
    const isSame = this.data.status === (told.status ?? "");
    if (isSame && told.by === this.decisions.me) return;
    if (this.decisions.recover(this, told.by, told.status)) {
      this.others = null;
      this.data.status = told.status;
      this.hasFailed = false;
      this.isSettled = told.status !== "New";
      this.say(`${told.status}.`);
      return;
    }
    this.setByOthers(told.status ?? "");
    // Theirs has taken effect; it is unknown if an accepted one of ours will.
    if (isSame && one(".outcome", this.element).textContent !== ACCEPTED) return;
    this.isSettled = told.status !== "New";
    this.say(`${told.by ?? "Somebody else"}: ${told.status ?? "deleted"}.`);
  }

  setByOthers(status) {
    this.data.status = status;
    this.decisions.overtake(this);
  }
}
