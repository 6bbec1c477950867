// Decisions made on this page. row.js lists their states.

import { one, random, send } from "./page.js";

const REQUESTS = 3;
const TOGETHER = 200;
const AFTER = { approve: "Approved", reject: "Rejected", reset: "New" };
const DOING = { approve: "Approving", reject: "Rejecting", reset: "Putting back in the queue" };

/** A decision about a row whose status is `expected`. */
function decisionOf(row, action, expected, reasonCode, isUndoing = false) {
  const status = AFTER[action];
  return {
    row, action, expected, reasonCode, isUndoing, status,
    why: reasonCode && `: ${reasonCode}`,
    // If not, there are no news of it, and nothing to undo.
    isChange: status !== expected,
    // What an undo restores.
    back: Object.keys(AFTER).find((each) => AFTER[each] === expected),
    reasonBefore: row.data.reason, wasSettled: row.isSettled,
  };
}

/** Decisions that can be undone, oldest first. `isLost`: without an answer, perhaps not made. `isOvertaken`: others
 *  have decided since. `isTakenBack`: its undo is under way. */
export class Decisions {
  constructor(me) {
    this.me = me;
    this.all = [];
  }

  of(row) { return this.all.filter((each) => each.row === row); }
  get made() { return this.all.filter((each) => !each.isLost); }

  drop(decision) { this.all = this.all.filter((each) => each !== decision); }

  /** Mark a lost decision as made. Returns false if there is none. */
  recover(row, by, status) {
    const found = this.of(row).find((each) => each.isLost && each.status === status && by === this.me);
    if (found) found.isLost = false;
    return found !== undefined;
  }

  /** Others have decided, perhaps the same: no undo of ours may reverse that. */
  overtake(row) {
    for (const each of this.of(row)) each.isOvertaken = true;
  }
}

/** Decisions to be sent. Browsers open at most six connections to a host: while REQUESTS are under way, decisions wait,
 *  and are sent together. */
let waiting = [];
let out = 0;

function sendTogether({ row, action, expected, reasonCode, isUndoing }) {
  const { fields, data: { id } } = row;
  return new Promise((resolve, reject) => {
    const undoing = isUndoing ? "1" : undefined;
    const like = JSON.stringify({ action, expected, reasonCode: reasonCode || undefined, undoing });
    waiting.push({ id, fields, like, resolve, reject });
    go();
  });
}

async function go() {
  if (!waiting.length || out >= REQUESTS) return;
  const { like } = waiting[0];
  const together = waiting.filter((each) => each.like === like).slice(0, TOGETHER);
  waiting = waiting.filter((each) => !together.includes(each));
  out += 1;
  try {
    const about = [...Object.entries(JSON.parse(like)), ["key", random()]];
    const fields = together.flatMap((each) => each.fields);
    const { results } = await send("/console/queue/decisions", [...about, ...fields]);
    for (const { id, resolve } of together) resolve(results.find((each) => each.id === id) ?? { outcome: "accepted" });
  } catch (error) {
    for (const { reject } of together) reject(error);
  } finally {
    out -= 1;
    go();
  }
}

export class Deciding {
  constructor(queue) {
    this.queue = queue;
    this.decisions = queue.decisions;
    document.addEventListener("submit", (event) => {
      const { target: form, submitter } = event;
      if (!form.matches("form[data-decide]")) return;
      event.preventDefault();
      const row = queue.row(form.closest("#list > li")?.dataset.id ?? form.dataset.id);
      const action = submitter?.value;
      if (row && !row.isSettled) this.decide(row, action, action === "reject" ? form.elements.reasonCode.value : "");
    });
  }

  decide(row, action, reasonCode = "") {
    if (row.work) return;
    // Decided already, perhaps by others just now: go on, and never overwrite that.
    if (row.isSettled && action !== "reset") {
      this.queue.advance();
      return;
    }
    const decision = decisionOf(row, action, row.data.status, reasonCode);
    if (decision.isChange) this.decisions.all.push(decision);
    row.show(`${DOING[action]}${decision.why} …`);
    row.hold(this.make(decision));
    if (this.queue.current.isSettled) this.queue.advance();
  }

  async make(decision) {
    const { row, action, reasonCode } = decision;
    try {
      await this.send(decision);
      row.data.reason = reasonCode;
      if (action === "reset") row.isSettled = false;
    } catch (error) {
      if (error.isFinal) this.decisions.drop(decision);
      // It may have been made nevertheless: then its news will come.
      else decision.isLost = true;
    }
  }

  async send(decision) {
    const { row, status } = decision;
    row.sent(decision);
    try {
      row.answered(await sendTogether(decision), decision);
    } catch (error) {
      // Only the answer was lost.
      if (!error.isFinal && row.hasEchoed(decision)) {
        row.take(status);
        return;
      }
      row.failed(error, decision);
      throw error;
    }
  }

  undo() {
    const last = this.decisions.made.findLast((each) => !each.isTakenBack);
    if (!last) {
      const button = one("form.notice [name=action]");
      const { current } = this.queue;
      if (button) button.click();
      else if (!current.isSettled) current.say("There is nothing to undo.");
      return;
    }
    last.isTakenBack = true;
    this.queue.goTo(last.row);
    last.row.hold(this.takeBack(last, last.row.work));
  }

  /** Undo a decision once it is answered. If it failed, there is nothing to undo. */
  async takeBack(last, making) {
    const { row, back, status, reasonBefore, wasSettled } = last;
    await making;
    row.showOthers();
    if (!this.decisions.made.includes(last)) return;
    if (last.isOvertaken) {
      row.notUndone();
      this.decisions.drop(last);
      return;
    }
    row.say("Undoing …");
    const reasonCode = (back === "reject" && reasonBefore) || "";
    try {
      await this.send(decisionOf(row, back, status, reasonCode, true));
    } catch (error) {
      last.isTakenBack = false;
      if (error.isFinal) this.decisions.drop(last);
      return;
    }
    this.decisions.drop(last);
    row.undone(reasonCode, wasSettled);
    this.queue.look(row);
  }
}
