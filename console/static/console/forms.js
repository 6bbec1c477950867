import { asked, create, one, signIn } from "./page.js";

const LIVE_MS = 400;

/** Those with something typed that wasn't sent. */
const unsent = new Set();
window.addEventListener("beforeunload", (event) => {
  if (unsent.size) event.preventDefault();
});

/** Before a form with something typed goes: is the visitor still signed in? Otherwise it stays as it is, and says what to
 *  do. */
export function keep(form) {
  let isIn = false;
  let asking = null;
  let told = null;
  const tell = (isPreview, ...words) => {
    // While somebody types, once is enough.
    if (isPreview && told) return;
    told?.remove();
    told = create("p", { className: "errors", role: "alert" });
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
      tell(isPreview, "The service is unavailable. Send this again later: nothing that you typed is lost.");
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

/** What a new frame shows first is no step that the browser's back button would take. */
function renew(frame) {
  const fresh = frame.cloneNode();
  fresh.removeAttribute("src");
  frame.replaceWith(fresh);
}

/** Press a button a moment after its form was typed in. */
export function live(button) {
  let waiting;
  button.form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => button.form.requestSubmit(button), LIVE_MS);
  });
}
