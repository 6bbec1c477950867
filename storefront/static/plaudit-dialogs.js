/** The dialogs of `<plaudit-reviews>`: photos in full size, and reports. */

import { h, sheet } from './plaudit-stars.js';

/** @typedef {import('./types').Review} Review */
/** @typedef {import('./types').Shop} Shop */

const REASONS = ['spam', 'offensive', 'personal-data', 'off-topic', 'illegal', 'other'];

const SHEET = sheet(`
dialog{color:var(--ink);background:var(--paper);border:1px solid var(--line);border-radius:var(--round);
max-width:min(40em,94vw);padding:1.25em}
dialog.large{max-width:94vw;text-align:center}
.large .row{justify-content:center;margin-block-start:.75em}
form{max-width:44em}
@container(min-width:38em){.two{grid-template-columns:1fr 1fr}}
.wrong:empty{margin-block-end:-1em}
::file-selector-button{font:inherit;margin-inline-end:1em}
dialog img{max-width:100%;max-height:75vh;object-fit:contain}
::backdrop{background:#000a}
label,fieldset{display:grid;gap:.3em}legend{padding:0}
label:has([type=checkbox]){grid-template-columns:auto 1fr}
canvas{width:3.5em;height:3.5em;object-fit:cover;border-radius:var(--round)}
[type=file]{border-style:dashed;width:100%}
textarea{min-height:7em;resize:vertical}
.rate{display:flex}
.rate label{position:relative;padding:.1em;border-radius:4px;cursor:pointer}
.rate :has(:focus-visible){outline:2px solid var(--accent)}
.rate svg{height:2em;fill:none;stroke:var(--soft)}
.rate label:has(:checked) svg,
.rate label:has(~ label :checked) svg{fill:var(--plaudit-star,light-dark(#b87400,#f2b84b))}
[aria-invalid=true]{border:2px solid}`);

/** Add the styles of what is opened later: the form and the dialogs. @param {Shop} shop */
export function dress(shop) {
  const root = /** @type {ShadowRoot} */ (shop.box.getRootNode());
  if (!root.adoptedStyleSheets.includes(SHEET)) root.adoptedStyleSheets.push(SHEET);
}

/**
 * A dialog, which is removed when it is closed. The browser returns the focus.
 * @param {Shop} shop
 * @param {string} label
 * @param {string} [kind]
 */
function dialogOf(shop, label, kind) {
  dress(shop);
  const dialog = h('dialog', { class: kind, 'aria-label': label, close: () => dialog.remove() });
  shop.box.append(dialog);
  return dialog;
}

/**
 * Show a photo of a review in full size. Arrow keys show the others, Esc closes the dialog.
 * @param {Shop} shop
 * @param {Review} review
 * @param {number} index
 */
export function lightbox(shop, review, index) {
  const { say } = shop;
  const count = review.images.length;
  const dialog = dialogOf(shop, say('photos'), 'large');
  const picture = h('img');
  const caption = h('span', { role: 'status' });
  const go = /** @param {number} step */ (step) => {
    index = (index + step + count) % count;
    picture.src = shop.service + review.images[index].large;
    picture.alt = caption.textContent = say('photo', { n: index + 1, count });
  };
  /** @param {string} word @param {() => void} click */
  const button = (word, click) => h('button', { click }, say(word));
  const steps = count > 1;
  dialog.append(
    picture,
    h('div', { class: 'row' },
      steps && button('previous', () => go(-1)),
      caption,
      steps && button('next', () => go(1)),
      button('close', () => dialog.close())),
  );
  dialog.addEventListener('keydown', ({ key }) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (step) go(shop.box.dir == 'rtl' ? -step : step);
  });
  go(0);
  dialog.showModal();
}

/** The form of a report about a review. @param {Shop} shop @param {Review} review */
export function report(shop, review) {
  const { say } = shop;
  const dialog = dialogOf(shop, say('reportTitle'));
  const problem = h('p', { class: 'wrong', role: 'alert' });
  const select = h('select', { name: 'reason' },
    ...REASONS.map((each) => h('option', { value: each }, say('reason.' + each))));
  let attempt = { body: '', key: '' };
  let isSending = false;
  const form = h('form', { submit: send },
    h('h2', {}, say('reportTitle')),
    h('label', {}, say('reason'), select),
    h('label', {}, say('explanation'), h('textarea', { name: 'explanation', required: true, maxlength: 5000 })),
    h('div', { class: 'two stack' },
      h('label', {}, say('nameOptional'), h('input', { name: 'name', maxlength: 128, autocomplete: 'name' })),
      h('label', {}, say('mailOptional'),
        h('input', { name: 'email', type: 'email', maxlength: 254, autocomplete: 'email' }))),
    h('label', {}, h('input', { type: 'checkbox', required: true }), say('goodFaith')),
    problem,
    h('div', { class: 'row' },
      h('button', { class: 'main' }, say('sendReport')),
      h('button', { type: 'button', click: () => dialog.close() }, say('cancel'))));

  /** @param {Event} event */
  async function send(event) {
    event.preventDefault();
    if (isSending) return;
    isSending = true;
    problem.textContent = '';
    const given = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
    const body = JSON.stringify({ reviewId: review.id, goodFaith: true, ...given });
    if (body != attempt.body) attempt = { body, key: shop.hex() };
    try {
      await shop.send('/reports', body, { 'Idempotency-Key': attempt.key });
      const close = h('button', { click: () => dialog.close() }, say('close'));
      dialog.replaceChildren(h('div', { class: 'stack' }, h('p', { role: 'status' }, say('reported')), close));
      close.focus();
    } catch (error) {
      problem.textContent = shop.problems(error).join(' ');
    }
    isSending = false;
  }

  dialog.append(form);
  dialog.showModal();
}
