// Starts what a page needs. Without scripts every page works by its links and forms.

import { Deciding } from "./console/deciding.js";
import { keep, live } from "./console/forms.js";
import { listenToKeys } from "./console/keys.js";
import { News } from "./console/news.js";
import { all, arrival, create, one, reveal } from "./console/page.js";
import { Queue } from "./console/queue.js";

/** Show times in the visitor's time zone, and in UTC as tooltips. */
function localize() {
  const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
  const place = one("#zone");
  if (!timeZone || timeZone === "UTC" || !place) return;
  place.textContent = `Times are in ${timeZone.replaceAll("_", " ")}.`;
  const form = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "short" });
  for (const time of all("time.at:not([title])")) {
    time.title = `${time.textContent} UTC`;
    time.textContent = form.format(new Date(time.dateTime)).replace("Sept", "Sep");
  }
}

document.addEventListener("htmx:after:swap", localize);
document.addEventListener("htmx:error", ({ target }) => {
  if (target.id !== "context") return;
  const textContent = "The details can't be loaded. Reload to try again.";
  target.replaceChildren(create("p", { className: "hint", role: "alert", textContent }));
});

// After a refused form: focus the first wrong field, else the message.
(one("main [aria-invalid=true]") ?? one("main .errors"))?.focus();
// On phones bars scroll: show this page's entry, and a link in focus.
reveal(one("nav [aria-current]"));
document.addEventListener("focusin", () => reveal(one("a:focus-visible")));
localize();

const list = one("#list");
const queue = list && new Queue(list);
const deciding = queue && new Deciding(queue);
const news = one("#news");
if (news) new News(news, queue);
if (one("#list, #help, #decide, form.notice")) listenToKeys(queue, deciding);

// A bulk decision continues by itself, but not after a reload or a step back.
if (arrival === "navigate") one("#continue")?.requestSubmit();

for (const button of all("button[data-live]")) live(button);
for (const form of all(
  "main form[method=post]:not([data-decide], [action^='/console/sign-in']):has(textarea, input:not([type=hidden]))",
)) keep(form);

// Last: where these scripts can't run, the forms that they replace stay visible.
document.documentElement.classList.add("scripted");
