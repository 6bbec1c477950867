/** The dialogs of `<plaudit-reviews>`: photos in full size, and reports; and what all its forms have in common. */

import { h, sheet } from './plaudit-stars.js';

/** @typedef {import('./types').Review} Review */
/** @typedef {import('./types').Shop} Shop */

const REASONS = ['spam', 'offensive', 'personal-data', 'off-topic', 'illegal', 'other'];
const NOTE = 'wrong-';

const SHEET = sheet(`
dialog{color:var(--ink);background:var(--paper);border:1px solid var(--line);border-radius:var(--round);
max-width:min(40em,94vw);padding:1.25em}
dialog.large{max-width:94vw;text-align:center}
.large .row{justify-content:center;margin-block-start:.75em}
form{max-width:44em}
@container(min-width:38em){.two{grid-template-columns:1fr 1fr}}
::file-selector-button{font:inherit;margin-inline-end:1em}
dialog img{max-width:100%;max-height:max(6em,100dvh - 12em);object-fit:contain}
::backdrop{background:#000a}
label,fieldset,.field{display:grid;gap:.3em;align-content:start}legend{padding:0}
label:has([type=checkbox]){grid-template-columns:auto 1fr;gap:.75em}
[type=checkbox]{order:-1;width:24px;height:24px;margin:0;accent-color:var(--accent)}
/** Without a place in the grid, what is empty leaves no gap. */
.wrong:empty,ul:empty{position:absolute}
canvas{width:3.5em;height:3.5em;object-fit:cover;border-radius:var(--round)}
[type=file]{border-style:dashed;width:100%}
textarea{min-height:7em;resize:vertical}
/** Empty, a field without its own direction would begin at the left. */
:placeholder-shown{direction:inherit}
.rate{display:flex}
.rate label{position:relative;padding:.1em;border-radius:4px;cursor:pointer}
.rate :has(:focus-visible){outline:2px solid var(--accent)}
.rate svg{height:2em;fill:none;stroke:var(--soft)}
.rate label:has(:checked) svg,
.rate label:has(~ label :checked) svg{fill:var(--plaudit-star,light-dark(#b87400,#f2b84b))}
label>[aria-invalid=true]{border:2px solid light-dark(#b3261e,#ff9a92)}`);

/** Add the styles of what is opened later: the form and the dialogs. @param {Shop} shop */
export function dress(shop) {
  const root = /** @type {ShadowRoot} */ (shop.box.getRootNode());
  if (!root.adoptedStyleSheets.includes(SHEET)) root.adoptedStyleSheets.push(SHEET);
}

/**
 * Show a dialog, which is removed when it is closed. The browser returns the focus.
 * @param {Shop} shop
 * @param {HTMLDialogElement} dialog
 */
function show(shop, dialog) {
  shop.box.append(dialog);
  dialog.onclose = dialog.remove;
  dress(shop);
  dialog.showModal();
}

/**
 * Show a photo of a review in full size. Arrow keys show the others; Esc and a click beside it close it.
 * @param {Shop} shop
 * @param {Review} review
 * @param {number} index
 */
export function lightbox(shop, review, index) {
  const { say } = shop;
  const count = review.images.length;
  const dialog = h('dialog', { class: 'large', closedby: 'any' });
  const picture = h('img');
  const caption = h('span', { role: 'status' });
  const go = /** @param {number} step */ (step) => {
    index = (index + step + count) % count;
    picture.src = shop.service + review.images[index].large;
    picture.alt = caption.textContent = dialog.ariaLabel = say('photo', { n: index + 1, count });
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
  show(shop, dialog);
}

/**
 * Show the form of a report about a review. One that was closed keeps what was typed.
 * @param {Shop} shop
 * @param {Review} review
 */
export function report(shop, review) {
  show(shop, review.report ??= dialogOf(shop, review));
}

/** @param {Shop} shop @param {Review} review */
function dialogOf(shop, review) {
  const { say } = shop;
  const dialog = h('dialog', { 'aria-label': say('reportTitle') });
  const reasons = REASONS.map((each) => h('option', { value: each }, say('reason.' + each)));
  let attempt = { body: '', key: '' };
  const form = formOf(shop, send, [
    h('h2', {}, say('reportTitle')),
    field(say('reason'), h('select', { name: 'reason', required: true },
      h('option', { label: say('choose') }), ...reasons)),
    textField(say('explanation'), 5000, 'textarea', { name: 'explanation', required: true }),
    h('div', { class: 'two stack' },
      textField(say('nameOptional'), 128, 'input', { name: 'name', autocomplete: 'name' }),
      textField(say('mailOptional'), 254, 'input', { name: 'email', type: 'email', autocomplete: 'email' })),
    field(say('goodFaith'), h('input', { name: 'goodFaith', type: 'checkbox', required: true })),
  ],
    h('button', { class: 'main' }, say('sendReport')),
    h('button', { type: 'button', click: () => dialog.close() }, say('cancel')));

  async function send() {
    const given = Object.fromEntries([...new FormData(form)].filter(([, value]) => value));
    const body = JSON.stringify({ ...given, reviewId: review.id, goodFaith: true });
    if (body != attempt.body) attempt = { body, key: shop.hex() };
    await shop.send('/reports', body, { 'Idempotency-Key': attempt.key });
    const close = h('button', { click: () => dialog.close() }, say('close'));
    dialog.replaceChildren(h('div', { class: 'stack' }, h('p', { role: 'status' }, say('reported')), close));
    close.focus();
  }

  dialog.append(form);
  return dialog;
}

/**
 * A field with its label, and below it the place for what is wrong with it.
 * @param {string} label
 * @param {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} control
 */
function field(label, control) {
  return h('div', { class: 'field' }, h('label', {}, label, control), noteOf(control, control.name));
}

/**
 * A field for a text of at most `most` characters, in the direction of what is typed. A longer one isn't cut.
 * @param {string} label
 * @param {number} most
 * @param {'input' | 'textarea'} kind
 * @param {Record<string, any>} attributes
 */
export function textField(label, most, kind, attributes) {
  return field(label, h(kind, { dir: 'auto', placeholder: ' ', 'data-most': most, ...attributes }));
}

/**
 * The place for what is wrong with a field. Screen readers read it with the element, which is marked as invalid.
 * @param {HTMLElement} element
 * @param {string} name
 */
export function noteOf(element, name) {
  const id = NOTE + name;
  element.setAttribute('aria-describedby', id);
  return h('p', { class: 'wrong', id });
}

/**
 * What a visitor has to change before the form can be sent: texts by the names of its fields.
 * @param {Shop} shop
 * @param {HTMLFormElement} form
 */
function mistakes({ say }, form) {
  /** @type {Record<string, string>} */
  const found = {};
  /** @type {NodeListOf<HTMLInputElement>} */
  const controls = form.querySelectorAll('input,select,textarea');
  for (const { name, required, value, validity, dataset } of controls) {
    /** The service counts code points. */
    const n = [...value].length - Number(dataset.most);
    if (validity.valueMissing || (required && !value.trim())) found[name] = say('missing.' + name);
    else if (n > 0) found[name] = say('tooLong', { n });
    else if (!validity.valid) found[name] = say('refused.invalid-address');
  }
  return found;
}

/**
 * A form that shows at its fields what is missing or wrong, in the language of the page, instead of sending it. So it
 * does with what the service refuses; what is wrong with no field is shown above the buttons. The focus moves there,
 * except from somebody who has gone on typing.
 * @param {Shop} shop
 * @param {() => Promise<void>} send Throws a Problem.
 * @param {(Element | false)[]} fields
 * @param {...Element} buttons
 */
export function formOf(shop, send, fields, ...buttons) {
  const rest = h('div', { class: 'wrong', role: 'alert', tabindex: -1 });
  const form = h('form', { novalidate: true, submit, input }, ...fields, rest, h('div', { class: 'row' }, ...buttons));
  let isSending = false;
  let isTyping = false;

  /** @param {string} name @returns {HTMLElement | null} */
  const note = (name) => form.querySelector(`[id="${NOTE + name}"]`);

  /** @param {string} name @param {string} text */
  function mark(name, text) {
    const place = note(name);
    if (!place) return;
    place.textContent = text;
    const marked = /** @type {Element} */ (form.querySelector(`[aria-describedby=${place.id}]`));
    marked.ariaInvalid = text ? 'true' : null;
  }

  /** @param {Event} event */
  function input({ target }) {
    isTyping = true;
    mark(/** @type {HTMLInputElement} */ (target).name, '');
  }

  /** @param {Record<string, string>} found @param {string[]} others */
  function show(found, others) {
    /** @type {HTMLElement | undefined} */
    let first;
    /** @type {NodeListOf<HTMLInputElement>} */
    const controls = form.querySelectorAll('[name]');
    for (const each of controls) {
      mark(each.name, found[each.name] ?? '');
      if (found[each.name]) first ??= each;
    }
    rest.replaceChildren(...others.map((text) => h('p', {}, text)));
    if (others.length) first ??= rest;
    isTyping || first?.focus();
    return first;
  }

  /** @param {import('./types').Problem} problem */
  function refuse(problem) {
    const { errors = [], at } = problem;
    if (at) return isTyping || at.focus();
    /** @type {Record<string, string>} */
    const found = {};
    const others = errors.filter((each) => {
      const name = each.pointer?.slice(1) ?? '';
      if (note(name)) [found[name]] = shop.problems({ errors: [each] });
      return !found[name];
    });
    const isElsewhere = others.length > 0 || !errors.length;
    show(found, isElsewhere ? shop.problems({ ...problem, errors: others }) : []);
  }

  /** @param {Event} event */
  async function submit(event) {
    event.preventDefault();
    if (isSending) return;
    isTyping = false;
    if (show(mistakes(shop, form), [])) return;
    isSending = true;
    try {
      await send();
    } catch (error) {
      refuse(/** @type {import('./types').Problem} */ (error));
    }
    isSending = false;
  }

  return form;
}
