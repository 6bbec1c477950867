import { checkSession, create, one, reveal, signIn } from "./page.js";

const LIVE_MS = 400;
const SLOW_MS = 4_000;

const unsent = new Set();
window.addEventListener("beforeunload", (event) => {
  if (unsent.size) event.preventDefault();
});

/** Before a form is sent, check that the visitor is still signed in. If not, the page stays, and says what to do. */
export function keep(form) {
  let isIn, asking, told;
  const tell = (isPreview, ...words) => {
    // Previews come while somebody types: one message is enough.
    if (isPreview && told) return;
    told?.remove();
    told = create("p", { className: "errors", role: "alert" });
    told.append(...words);
    form.prepend(told);
    isPreview || reveal(told);
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
    // A double click sends once. A submission doesn't wait for a preview.
    if (asking && (isPreview || !asking.isPreview)) return;
    const own = asking = { isPreview };
    const late = !isPreview && setTimeout(tell, SLOW_MS, false, "The service takes longer than usual: please wait.");
    const response = await checkSession();
    clearTimeout(late);
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

/** Replace the frame: the first page of a new one adds no step to the browser's history. */
function renew(frame) {
  const { name, title } = frame;
  frame.replaceWith(create("iframe", { name, title, sandbox: "" }));
}

/** Press a button a moment after input into its form. */
export function live(button) {
  let waiting;
  button.form.addEventListener("input", () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => button.form.requestSubmit(button), LIVE_MS);
  });
}
