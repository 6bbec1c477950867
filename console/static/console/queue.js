// The list of the queue: which row is in focus, which are selected, and what others do with them.

import { Decisions } from "./deciding.js";
import { all, create, fromTheTop, one, random, send } from "./page.js";
import { Row } from "./row.js";

/** This tab, for others who look at the queue. */
let desk = random();
try { desk = sessionStorage.desk ??= desk; } catch { /* a new one on each page */ }

/** If a page before left this word for the next one, which takes it away. */
function took(name) {
  try {
    const isThere = name in sessionStorage;
    sessionStorage.removeItem(name);
    return isThere;
  } catch { return false; }
}

export class Queue {
  constructor(list) {
    this.list = list;
    this.reasons = list.dataset.reasons.split(" ");
    this.decisions = new Decisions(list.dataset.me ?? null);
    this.rows = all(":scope > li", list).map((element) => new Row(element, this.decisions));
    this.current = this.rows.find(({ element }) => element.matches(".focus")) ?? null;
    this.picked = null;
    const choose = ({ target }) => this.focus(this.row(target.closest("li")?.dataset.id));
    list.addEventListener("click", choose);
    list.addEventListener("focusin", choose);
    list.addEventListener("change", () => this.count());
    window.addEventListener("beforeunload", (event) => {
      if (this.isBusy) event.preventDefault();
      this.offerUndo();
    });
    this.count();
    if (!this.current) return;
    this.claim(this.current);
    // Who comes from a page that is done, or back, hears the row that keys decide about.
    if (took("goesOn") || performance.getEntriesByType("navigation")[0]?.type === "back_forward") this.goTo(this.current);
  }

  row(id) { return this.rows.find((row) => row.data.id === id); }
  get isBusy() { return this.rows.some((row) => row.work); }

  focus(row) {
    if (!row || row === this.current) return;
    this.current?.element.classList.remove("focus");
    this.current?.element.removeAttribute("aria-current");
    this.current = row;
    row.element.classList.add("focus");
    row.element.setAttribute("aria-current", "true");
    one("#context").ariaBusy = "true";
    clearTimeout(this.looking);
    this.looking = setTimeout(() => {
      this.remember();
      const address = `/console/reviews/${encodeURIComponent(row.data.id)}/context`;
      one("#context").scrollTop = 0;
      htmx.ajax("GET", address, { target: "#context", source: "#context" });
      this.claim(row);
    }, 150);
  }

  /** Put the row in focus into the address: a way back leads there. */
  remember() {
    const here = new URL(location.href);
    here.searchParams.set("focus", this.current.data.id);
    history.replaceState(history.state, "", here);
  }

  /** Bring a row into focus and into view, also for those who hear the page. */
  goTo(row) {
    this.focus(row);
    row?.element.scrollIntoView({ block: "nearest", behavior: "instant" });
    row?.element.focus({ preventScroll: true });
  }

  /** Tell others which row is in focus; one request at a time, the last row wins. */
  async claim(row) {
    this.claimed = row;
    if (this.isClaiming) return;
    this.isClaiming = true;
    for (let told = null; told !== this.claimed;) {
      told = this.claimed;
      await send("/console/queue/claims", { id: told.data.id, desk }).catch(() => { /* advice alone */ });
    }
    this.isClaiming = false;
  }

  move(by) { this.goTo(this.rows[this.rows.indexOf(this.current) + by]); }

  /** The next row that waits, below the one in focus, else from the top. */
  advance() {
    const at = this.rows.indexOf(this.current);
    const next = [...this.rows.slice(at + 1), ...this.rows.slice(0, at)].find((row) => !row.isSettled);
    if (next) this.goTo(next);
    else this.finish();
  }

  /** All rows of the page are decided: the next ones, as soon as the decisions have taken effect. */
  async finish() {
    // Once: going to the same place again would begin anew, as often as a key is pressed.
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
    try { sessionStorage.goesOn = "1"; } catch { /* heard from the top */ }
    location.assign(fromTheTop());
  }

  /** Have the next page of the queue offer to undo the last decision of this one; one that is under way is none yet. */
  offerUndo() {
    const last = this.decisions.made.at(-1);
    // As on one page: what others have decided since is none of ours to undo.
    if (!last || last.isOvertaken || last.row.work) return;
    const { id, seen } = last.row.data;
    const undo = { id, seen, action: last.back, expected: last.status, reasonCode: last.reasonBefore };
    document.cookie = `plaudit-undo=${encodeURIComponent(JSON.stringify(undo))}; path=/console/queue; max-age=300; samesite=strict`;
  }

  /** Not before somebody can have read that one of the last decisions failed; the next key goes on, too. */
  offerToGoOn() {
    if (one("#go-on")) return;
    const told = create("p", { id: "go-on", className: "notice plain", role: "alert" });
    const link = create("a", { href: fromTheTop(), textContent: "Continue" });
    link.addEventListener("click", (event) => {
      event.preventDefault();
      this.advance();
    });
    told.append("Not all decisions were made; each row has its result. ", link);
    this.list.after(told);
  }

  select(isRange) {
    const at = this.rows.indexOf(this.current);
    if (at < 0) return;
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

  /** What others do. `isSince`: it isn't older than the page, where it would stand already. */
  hear(kind, told, isSince) {
    const row = this.row(told.id);
    if (!row) return;
    if (kind === "claimed") {
      if (told.desk === desk) return;
      // Whoever looks at another review has left the one before.
      for (const other of this.rows) if (other.claim?.desk === told.desk) other.unclaim();
      row.hearClaim(told);
    } else if (kind === "edited") {
      row.hearEdit(told);
    } else {
      row.unclaim();
      if (isSince && !row.isKnown(told)) row.hearOthers(told);
    }
  }

  /** What others did while this page heard no news. Returns false where there is no answer, or none about some rows. */
  async catchUp() {
    const isWhole = !this.isBusy;
    const rows = this.rows.filter((row) => !row.work);
    const turns = new Map(rows.map((row) => [row, row.turn]));
    const told = await send("/console/queue/rows", rows.flatMap(({ fields }) => fields)).catch(() => null);
    for (const each of told?.results ?? []) {
      const row = this.row(each.id);
      // It was decided meanwhile, or before and that hasn't taken effect: the answer is older.
      if (!row || row.turn !== turns.get(row) || (row.awaited && row.awaited === each.status)) continue;
      row.awaited = null;
      if (each.status === row.data.status) row.hasTaken(each.status);
      const isDecided = each.status !== (row.data.status || null);
      // Somebody else's that comes to the same as one that was made here.
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
