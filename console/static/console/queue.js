// The list of the queue: the row in focus, the selected rows, and what other moderators do.

import { Decisions } from "./deciding.js";
import { all, arrival, create, fromTheTop, one, random, reveal, send, stored } from "./page.js";
import { Row } from "./row.js";

// `goesOn`: after a finished page. `desk`: the id of this tab, for other moderators.
const tab = stored("sessionStorage");
tab.desk ??= random();

export class Queue {
  constructor(list) {
    this.list = list;
    this.reasons = list.dataset.reasons.split(" ");
    this.decisions = new Decisions(list.dataset.me ?? null);
    this.rows = all(":scope > li", list).map((element) => new Row(element, this.decisions));
    this.current = this.rows.find(({ element }) => element.matches(".focus"));
    this.picked = null;
    const choose = ({ target }) => this.focus(this.row(target.closest("li")?.dataset.id));
    list.addEventListener("click", choose);
    list.addEventListener("focusin", choose);
    list.addEventListener("change", () => this.count());
    window.addEventListener("beforeunload", (event) => {
      if (this.isBusy) event.preventDefault();
      this.offerUndo();
      this.remember();
    });
    this.count();
    this.claim(this.current);
    // After a finished page, a step back or a reload: screen readers read the row that keys decide about.
    if (tab.goesOn || arrival !== "navigate") this.goTo(this.current);
    // Rows may be gone by then: the browser would scroll to where this one was.
    history.scrollRestoration = "manual";
    delete tab.goesOn;
  }

  row(id) { return this.rows.find((row) => row.data.id === id); }
  get isBusy() { return this.rows.some((row) => row.work); }

  focus(row) {
    if (!row || row === this.current) return;
    this.current.element.classList.remove("focus");
    this.current.element.removeAttribute("aria-current");
    this.current = row;
    row.element.classList.add("focus");
    row.element.setAttribute("aria-current", "true");
    one("#context").ariaBusy = "true";
    clearTimeout(this.looking);
    this.looking = setTimeout(() => {
      this.remember();
      this.look(row);
      this.claim(row);
    }, 150);
  }

  /** Load the context of a row, if that is in focus. */
  async look(row) {
    if (row !== this.current) return;
    one("#context").scrollTop = 0;
    await htmx.ajax("GET", `${one("a.open", row.element).href}/context`, { target: "#context", source: "#context" });
    if (row === this.current) one("#context").ariaBusy = null;
  }

  /** Put the row in focus into the address, for going back. */
  remember() {
    const here = new URL(location.href);
    const { element, data } = this.current;
    here.searchParams.set("focus", `${one("time", element).dateTime},${data.id}`);
    history.replaceState(history.state, "", here);
  }

  /** Bring a row into focus and into view, also for screen readers. */
  goTo(row) {
    this.focus(row);
    reveal(row?.element);
    row?.element.focus({ preventScroll: true });
  }

  /** Tell other moderators which row is in focus; one request at a time, the last row wins. */
  async claim(row) {
    this.claimed = row;
    if (this.isClaiming) return;
    this.isClaiming = true;
    for (let told = null; told !== this.claimed;) {
      told = this.claimed;
      await send("/console/queue/claims", { id: told.data.id, desk: tab.desk }).catch(() => { /* only a hint */ });
    }
    this.isClaiming = false;
  }

  move(by) { this.goTo(this.rows[this.rows.indexOf(this.current) + by]); }

  /** Go to the next undecided row: below the one in focus, else from the top. */
  advance() {
    const at = this.rows.indexOf(this.current);
    const next = [...this.rows.slice(at + 1), ...this.rows.slice(0, at)].find((row) => !row.isSettled);
    if (next) this.goTo(next);
    else this.finish();
  }

  /** All rows are decided: load the next ones once the decisions are answered. */
  async finish() {
    // Once: each further key would restart the loading.
    if (this.isFinishing) return;
    this.isFinishing = true;
    for (const row of this.rows) row.isUnread = false;
    while (this.isBusy) await Promise.allSettled(this.rows.map((row) => row.work));
    const left = this.rows.find((row) => !row.isSettled);
    if (left || this.rows.some((row) => row.isUnread)) {
      this.isFinishing = false;
      if (left) this.goTo(left);
      else this.offerToGoOn();
      return;
    }
    tab.goesOn = "1";
    location.assign(fromTheTop());
  }

  /** Let the next page offer to undo the last decision, if that is answered. */
  offerUndo() {
    const last = this.decisions.made.at(-1);
    // What others have decided since isn't ours to undo.
    if (!last || last.isOvertaken || last.row.work) return;
    const { id, seen } = last.row.data;
    const undo = { id, seen, action: last.back, expected: last.status, reasonCode: last.reasonBefore };
    const value = encodeURIComponent(JSON.stringify(undo));
    document.cookie = `plaudit-undo=${value}; path=/console/queue; max-age=300; samesite=strict`;
  }

  /** Some decisions failed: go on only after a click or key, so that the messages can be read. */
  offerToGoOn() {
    if (one("#go-on")) return;
    const told = create("p", { id: "go-on", className: "notice", role: "alert" });
    const button = create("button", { textContent: "Continue", onclick: () => this.advance() });
    told.append("Not all decisions were made; each row has its result. ", button);
    this.list.after(told);
  }

  select(isRange) {
    const at = this.rows.indexOf(this.current);
    const boxes = this.rows.map(({ element }) => one("input[type=checkbox]", element));
    const from = isRange && this.picked !== null ? this.picked : at;
    const isOn = isRange || !boxes[at].checked;
    for (const box of boxes.slice(Math.min(from, at), Math.max(from, at) + 1)) box.checked = isOn;
    this.picked = at;
    this.count();
  }

  count() {
    const number = all("input[name=ids]:checked", this.list).length;
    one("#selected").textContent = number;
    one("#bulk").classList.toggle("has-selected", number > 0);
  }

  /** News of others. `isSince`: newer than the page, which shows what is older. */
  hear(kind, told, isSince) {
    const row = this.row(told.id);
    if (!row) return;
    if (kind === "claimed") {
      if (told.desk === tab.desk) return;
      // A tab looks at one review at a time.
      for (const other of this.rows) if (other.claim?.desk === told.desk) other.unclaim();
      row.hearClaim(told);
    } else if (kind === "edited") {
      row.hearEdit(told);
    } else {
      row.unclaim();
      if (isSince && !row.isKnown(told)) row.hearOthers(told);
    }
  }

  /** Load what others did while there were no news. Returns false unless there is an answer about all rows. */
  async catchUp() {
    const isWhole = !this.isBusy;
    const rows = this.rows.filter((row) => !row.work);
    const turns = new Map(rows.map((row) => [row, row.turn]));
    const told = await send("/console/queue/rows", rows.flatMap(({ fields }) => fields)).catch(() => null);
    for (const each of told?.results ?? []) {
      const row = this.row(each.id);
      // The answer is older than a decision made meanwhile, or one that hasn't taken effect.
      if (!row || row.turn !== turns.get(row) || (row.awaited && row.awaited === each.status)) continue;
      row.awaited = null;
      if (each.status === row.data.status) row.takeEffect(each.status);
      const isDecided = each.status !== (row.data.status || null);
      // Somebody else has decided the same as this page.
      const isAgain = each.by !== this.decisions.me && this.decisions.of(row).length > 0;
      if ((isDecided || isAgain) && !(each.isChanged && each.status === "New")) {
        row.unclaim();
        row.hearOthers(each);
      } else if (each.isChanged) {
        row.hearEdit(each);
      }
    }
    return isWhole && told !== null;
  }
}
