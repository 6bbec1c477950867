// One row of the queue: a review, and what is known of it.
//
// The life of a decision that is made here:
//   it is shown at once, and sent, alone or with others. The news that tell of it are to come: its echo;
//   its answer: it is applied, or accepted, and then it takes effect in a moment;
//   its echo comes, before its answer or behind it: what others did before is older.
// Otherwise it is
//   overtaken: others have decided before it, and it is void;
//   failed: it can be made again;
//   lost: no answer came. If its echo is here, or comes, it was made after all;
//   undone, by a second decision with a life of its own.

import { one } from "./page.js";

export const SKEW_MS = 5_000;
const CLAIM_MS = 120_000;
const CHANGED = "It was changed in the meantime: reload the page.";
const ACCEPTED = "Accepted; it takes effect in a moment.";

/** The error of a decision that somebody else's has made void. */
const final = (message) => Object.assign(new Error(message), { isFinal: true });

export class Row {
  constructor(element, decisions) {
    this.element = element;
    // Kept in the page: id, status, seen, reason.
    this.data = element.dataset;
    this.decisions = decisions;
    // What is under way: nobody decides meanwhile.
    this.work = null;
    // Counts decisions, here and of others: what was asked in another turn is older.
    this.turn = 0;
    // The status until what was accepted takes effect.
    this.awaited = null;
    // The statuses whose echo is to come, in their order.
    this.echoes = [];
    // The last decision of others since the last of ours.
    this.others = null;
    // The change of its text that was heard while work was under way.
    this.edit = null;
    // News that were heard, and when the latest happened.
    this.heard = new Set();
    this.latest = 0;
    // Who else looks at it.
    this.claim = null;
    // It says why a decision wasn't made, and nobody has gone on since.
    this.isUnread = false;
  }

  get isSettled() { return this.element.classList.contains("settled"); }
  set isSettled(is) {
    this.element.classList.toggle("settled", is);
    const box = one("input[type=checkbox]:checked", this.element);
    if (!is || !box) return;
    // Selected with others it would be decided about once more. The list counts them.
    box.checked = false;
    box.dispatchEvent(new Event("change", { bubbles: true }));
  }
  set hasFailed(is) { this.element.classList.toggle("failed", is); }

  /** What names it in a request. */
  get fields() {
    const { id, seen } = this.data;
    return [["ids", id], [`seen-${id}`, seen]];
  }

  say(text, isBad = false) {
    const outcome = one(".outcome", this.element);
    outcome.textContent = text;
    outcome.classList.toggle("bad-text", isBad);
  }

  /** What is heard until this work is over is told then. */
  hold(work) {
    this.work = work;
    work.finally(() => {
      if (this.work !== work) return;
      this.work = null;
      this.tellOthers();
      if (this.edit) this.hearEdit(this.edit);
    });
  }

  /** A decision, here or of others: nothing that was decided before is awaited. */
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

  /** Throws an Error where the decision wasn't made. */
  answered(told, decision) {
    const { expected, status, why, isChange } = decision;
    const hasEchoed = this.hasEchoed(decision);
    const isAccepted = told.outcome === "accepted" && !hasEchoed;
    if (told.reason === "status-changed" || (isAccepted && this.others && this.others.status !== status)) throw this.overtaken(told);
    if (told.reason === "text-changed") throw final(CHANGED);
    if (told.reason === "kept") throw final("Somebody has kept it in the meantime: reload the page.");
    if (told.outcome === "not-found") throw final("It no longer exists.");
    if (told.outcome === "refused") throw new Error(`Nothing was changed: ${told.reason}.`);
    if (isAccepted && isChange) this.awaited = expected;
    // What others did before this one took effect: its own news are to come behind theirs.
    if (isChange && !hasEchoed && !isAccepted) this.others = null;
    this.take(status, isAccepted ? ACCEPTED : `${status}${why}.`);
  }

  take(status, text = `${status}.`) {
    this.data.status = status;
    // The sign of open reports: this decision has settled them.
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
    // Its author brings a decided one back.
    const isBack = told.status === "New" && this.data.status !== "New";
    this.edit = this.work && told;
    if (this.edit || (this.isSettled && !isBack)) return;
    if (isBack) {
      this.others = null;
      this.isOfOthers("New");
    }
    this.isSettled = true;
    this.say(CHANGED);
  }

  /** True for news of a decision that was made here, for news that were heard before, and for older ones than those: a
   *  process that begins tells those of the last minutes again. */
  isKnown(told) {
    const name = `${told.at} ${told.status}`;
    if (this.heard.has(name) || told.at < this.latest - SKEW_MS) return true;
    this.heard.add(name);
    this.latest = Math.max(this.latest, told.at);
    this.begin();
    const at = told.by === this.decisions.me ? this.echoes.indexOf(told.status) : -1;
    if (at < 0) return false;
    // News of one review come in their order: those before this one were missed, and others decided before it.
    this.echoes.splice(0, at + 1);
    this.others = null;
    // Where nobody signs in, it may be somebody else's: the last one that was made here is as the row says.
    const isOurs = this.data.status === told.status;
    if (isOurs) this.hasTaken(told.status);
    return this.echoes.length > 0 || this.work !== null || isOurs;
  }

  /** What was accepted has taken effect. */
  hasTaken(status) {
    if (one(".outcome", this.element).textContent === ACCEPTED) this.say(`${status}.`);
  }

  hearOthers(told) {
    this.others = told;
    if (!this.work) this.tellOthers();
  }

  tellOthers() {
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
    this.isOfOthers(told.status ?? "");
    // Theirs has taken effect: whether ours will is unknown.
    if (isSame && one(".outcome", this.element).textContent !== ACCEPTED) return;
    this.isSettled = told.status !== "New";
    this.say(`${told.by ?? "Somebody else"}: ${told.status ?? "deleted"}.`);
  }

  isOfOthers(status) {
    this.data.status = status;
    this.decisions.overtake(this);
  }
}
