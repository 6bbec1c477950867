// Shortcuts. On the page of one review they press its buttons.

import { one, stored } from "./page.js";

/** `shortcuts`: on or off. */
const settings = stored("localStorage");

const click = (selector) => one(selector)?.click();

const onQueue = (queue, deciding, ask) => ({
  j: () => queue.move(1),
  k: () => queue.move(-1),
  a: () => deciding.decide(queue.current, "approve"),
  u: () => queue.current.data.status !== "New" && deciding.decide(queue.current, "reset"),
  r: () => {
    if (queue.current.isSettled) queue.advance();
    else ask(queue.current);
  },
  x: () => queue.select(false),
  X: () => queue.select(true),
  z: () => deciding.undo(),
  o: () => click("li.focus a.open"),
});

const onReview = {
  a: () => click("#decide [value=approve]"),
  r: () => one("#decide [name=reasonCode]")?.focus(),
  u: () => click("#decide [value=reset]"),
  z: () => click("form.notice [name=action]"),
};

/** The key, whether or not Caps Lock is on; on keyboards of other scripts, the Latin letter in its place. */
function meant({ key, code, shiftKey }) {
  const isLatin = /^[ -~]+$|\p{Script=Latin}/u.test(key);
  const letter = (!isLatin && /^Key([A-Z])$/.exec(code)?.[1]) || key;
  return shiftKey ? letter.toUpperCase() : letter.toLowerCase();
}

/** On some keyboards digits need Shift. */
const digitOf = ({ key, code }) => Number(key) || Number(/^(?:Digit|Numpad)(\d)$/.exec(code)?.[1]);

export function listenToKeys(queue, deciding) {
  const help = one("#help");
  const shortcuts = one("#shortcuts");
  if (shortcuts) {
    shortcuts.checked = settings.shortcuts !== "off";
    shortcuts.addEventListener("change", () => { settings.shortcuts = shortcuts.checked ? "on" : "off"; });
    one(".keys button").addEventListener("click", () => help.showModal());
  }
  // The row for which the next key chooses the reason.
  let rejecting = null;
  const actions = !queue ? onReview : onQueue(queue, deciding, (row) => {
    rejecting = row;
    row.say(`Reject: ${queue.reasons.map((each, at) => `${at + 1} ${each}`).join(", ")}. Esc: cancel.`);
  });

  function chooseReason(event) {
    const row = rejecting;
    rejecting = null;
    const reason = queue.reasons[digitOf(event) - 1];
    // Another row may be in focus, or this one decided by now.
    if (reason && row === queue.current) deciding.decide(row, "reject", reason);
    else if (!row.isSettled) row.say("");
  }

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
    if (settings.shortcuts === "off" || help?.open) return;
    if (event.target.closest("input:not([type=checkbox]), textarea, select")) return;
    if (["Shift", "CapsLock", "AltGraph"].includes(event.key)) return;
    const key = meant(event);
    if (rejecting) {
      if (event.repeat) return;
      chooseReason(event);
    } else if (key === "/") one("input[type=search]")?.focus();
    // Arabic keyboards have their own question mark.
    else if (/[?؟]/.test(key)) help?.showModal();
    else if (actions[key] && (!event.repeat || "jkx".includes(key))) actions[key]();
    else return;
    event.preventDefault();
  });
}
