/** Reviews of an object, to read and to write: `<plaudit-reviews store type entity>`. */

import { closest, define, h, languageOf, serviceOf, sheet, stars } from './plaudit-stars.js';

/** @typedef {import('./types').Review} Review */
/** @typedef {import('./types').Page} Page */
/** @typedef {import('./types').Summary} Summary */
/** @typedef {import('./types').Shop} Shop */

const SERVICE_AWAY = { failed: 'Reviews can’t be shown at the moment.', retry: 'Try again' };
const TAKE = '10';
const ORDERS = ['newest', 'helpful', 'highest', 'lowest'];
const PATIENCE_MS = 2e4;
const LONG = 700;
const LINES = 7;
const VOTES = 'plaudit:votes';
/** For this long, caches may show an answer that is older than a vote. */
const STALE_MS = 66e4;
const VOTER = 'plaudit:voter';

/** Some browsers remember an address from which a module couldn't be loaded, so the next try has another one. */
let failures = 0;

const SHEET = sheet(`
:host(:not([hidden])){
--accent:var(--plaudit-accent,light-dark(#2f5bea,#8fa8ff));--ink:var(--plaudit-text,light-dark(#14181f,#e8eaed));
--soft:var(--plaudit-muted,light-dark(#4a5361,#a9b1bc));--line:var(--plaudit-line,light-dark(#cfd5dd,#454d5a));
--paper:var(--plaudit-background,Canvas);--round:var(--plaudit-radius,8px);
display:block;container-type:inline-size;font-family:var(--plaudit-font,inherit);
/** Where the page asks for the width of the content, such as in a flex box, a container has none of its own. */
contain-intrinsic-width:min(44em,90vw);min-width:0;max-width:100%}
*{box-sizing:border-box;min-width:0;grid-template-columns:minmax(0,1fr)}
h2,h3,p,ol,ul,fieldset{margin:0;padding:0;border:0;list-style:none}
h2{font-size:1.4em;line-height:1.2}h3{font-size:1em}
/** Styles of the page don't apply, except fonts, the colour scheme, and that it is hidden or can't be clicked. */
section{all:initial;font:inherit;color-scheme:inherit;visibility:inherit;pointer-events:inherit;color:var(--ink);
line-height:1.5;overflow-wrap:anywhere}
section,form,.stack{display:grid;gap:1em}
section{gap:1.5em}
.stack[hidden]{display:none}.row{display:flex;flex-wrap:wrap;gap:.5em 1em;align-items:center}
.top{display:grid;gap:1em 3em;align-items:center}
.sum{display:grid;justify-items:start}.sum b{font-size:3em;line-height:1.2}
.sum .stars{height:1.6em}
.soft{color:var(--soft);font-size:.9em}
.text{white-space:pre-line;max-width:70ch}
button,select,input,textarea{font:inherit;color:inherit;background:var(--paper);border:1px solid var(--soft);
border-radius:var(--round);padding:.45em .9em;max-width:100%}
button,select{cursor:pointer;min-width:24px;min-height:24px}button:hover:enabled{border-color:var(--accent)}
:focus-visible{outline:2px solid var(--accent);outline-offset:2px}
[aria-pressed=true],.main{border-color:var(--accent);color:var(--accent);font-weight:600}
.main{background:var(--accent);color:var(--plaudit-on-accent,light-dark(#fff,#14181f))}
button:disabled{cursor:default;opacity:.6}
.plain{border:0;padding:.25em .4em;background:none;text-decoration:underline;text-underline-offset:.2em}
.bars{display:grid;grid-template-columns:auto 1fr auto;column-gap:.75em}
.bar{display:grid;grid-template-columns:subgrid;grid-column:1/4;align-items:center;text-align:start;padding:.15em .4em;
text-decoration:none}
.bar svg{width:100%;height:.6em;
border-radius:1em;background:var(--line);fill:var(--plaudit-star,light-dark(#b87400,#f2b84b))}
.bar :last-child{text-align:end;font-variant-numeric:tabular-nums}
li.one{border-block-start:1px solid var(--line);
padding-block:1.25em;gap:.6em;justify-items:start;overflow:clip;overflow-clip-margin:6px}
.mark{color:light-dark(#137a43,#5fd39a)}
.photos button{padding:0;overflow:hidden;line-height:0}.photos img{width:5.5em;height:5.5em;object-fit:cover}
.reply{border-inline-start:3px solid var(--accent);padding-inline-start:1em;justify-items:start}
.one>.plain{margin-inline-start:-.4em}
[aria-busy=true] ol{opacity:.5}
.cut{display:-webkit-box;-webkit-line-clamp:7;-webkit-box-orient:vertical;overflow:hidden}
.bone{background:var(--line);border-radius:var(--round);opacity:.5;height:7em}
.bone:nth-child(1){height:1.75em;width:40%}.bone:nth-child(3){height:2.5em}
@media(prefers-reduced-motion:no-preference){.bone{animation:b 1.2s infinite alternate}}
@keyframes b{to{opacity:.2}}
.gone{position:absolute;width:1px;height:1px;overflow:hidden;clip-path:inset(50%);white-space:nowrap}
.wrong{color:light-dark(#b3261e,#ff9a92)}
@container(min-width:38em){.top{grid-template-columns:auto minmax(0,26em);justify-content:start}}`);

/** @type {Record<string, any>} Values for this page alone, for browsers that store nothing. */
const here = {};

/** A value that this browser has stored: without one, parsing throws. @param {string} key @returns {any} */
function kept(key) {
  try {
    return JSON.parse(localStorage[key]);
  } catch {
    return here[key];
  }
}

/** Store a value; where the browser doesn't allow that, for this page alone. @param {string} key @param {any} value */
function keep(key, value) {
  here[key] = value;
  try {
    localStorage[key] = JSON.stringify(value);
  } catch {}
}

/** @param {HTMLElement} element @param {HTMLElement} box @returns {Shop} */
function shopOf(element, box) {
  const service = serviceOf(element);
  const place = ['store', 'type', 'entity'].map((name) =>
    encodeURIComponent(element.getAttribute(name) ?? '')).join('/');
  const number = new Intl.NumberFormat(box.lang, { maximumFractionDigits: 1 });
  const plural = new Intl.PluralRules(box.lang);
  const status = h('p', { class: 'gone', role: 'status' });
  /** @type {Shop} */
  const shop = {
    service,
    place,
    box,
    status,
    words: SERVICE_AWAY,
    /** Links in mails have tokens for products alone. */
    token: element.getAttribute('token') ??
      new URLSearchParams(place.includes('/Product/') ? location.search : '').get('token'),
    async ask(path, options) {
      const signal = AbortSignal.timeout(PATIENCE_MS);
      const address = `${service}/storefront/v1/${path[0] == '/' ? place : ''}${path}`;
      const response = await fetch(address, { credentials: 'omit', signal, ...options });
      if (response.ok) return response.json();
      throw Object.assign(Error(), await response.json().catch(() => {}), { status: response.status });
    },
    send(path, body, headers, method = 'POST') {
      return shop.ask(path, { method, body, headers: { 'Content-Type': 'application/json', ...headers } });
    },
    say(key, values = {}) {
      const text = shop.words[key] ?? key;
      const form = typeof text == 'string' ? text : text[plural.select(+values.n)] ?? text.other;
      return form.replace(/{(\w+)}/g, (_, name) =>
        typeof values[name] == 'number' ? number.format(values[name]) : values[name]);
    },
    tell(text) {
      status.textContent = text;
    },
    problems({ errors = [], results = [], status = 0 }) {
      const known = [...errors, ...results].map(({ code, reason }) =>
        'refused.' + (code ?? reason)).filter((key) => key in shop.words);
      const other = 'status.' + status;
      return (known.length ? known : [other in shop.words ? other : 'problem']).map((key) => shop.say(key));
    },
    hex: (bytes = crypto.getRandomValues(new Uint8Array(16))) =>
      [...bytes].map((byte) => byte.toString(16).padStart(2, '0')).join(''),
    fire(name, detail) {
      element.dispatchEvent(new CustomEvent('plaudit:' + name, { bubbles: true, composed: true, detail }));
    },
  };
  return shop;
}

/** @param {Shop} shop @param {string} iso */
function day(shop, iso) {
  return h('time', { datetime: iso }, new Date(iso).toLocaleDateString(shop.box.lang, { dateStyle: 'long' }));
}

/** @param {Shop} shop @param {Review} review @param {(text: string) => void} complain */
function votes(shop, review, complain) {
  /** The vote of this browser: earlier versions stored the choice alone. */
  const own = kept(VOTES)?.[review.id];
  /** The number of each vote; that of no vote isn't used. @type {Record<string, number>} */
  const counts = { true: review.helpful, false: review.notHelpful, undefined: 0,
    ...(own?.at > Date.now() - STALE_MS && own.counts) };
  /** @type {boolean | undefined} */
  let chosen = own?.at ? own.helpful : own;
  let turn = Promise.resolve();
  /** @param {boolean | undefined} choice */
  const choose = (choice) => {
    counts[`${chosen}`]--;
    counts[`${choice}`]++;
    chosen = choice;
    for (const { button, helpful } of buttons) {
      button.ariaPressed = `${chosen === helpful}`;
      const n = counts[`${helpful}`];
      button.textContent = shop.say(helpful ? 'yes' : 'no') + (n > 0 ? shop.say(' ({n})', { n }) : '');
    }
  };
  /** Vote; a second click withdraws the vote. @param {boolean} choice */
  const vote = async (choice) => {
    const before = chosen;
    const helpful = before === choice ? undefined : choice;
    complain('');
    choose(helpful);
    const voter = kept(VOTER) ?? shop.hex();
    keep(VOTER, voter);
    try {
      await shop.send('/votes', JSON.stringify({ reviewId: review.id, helpful, voter }), {},
        before === choice ? 'DELETE' : 'POST');
      keep(VOTES, { ...kept(VOTES), [review.id]: { helpful, counts, at: Date.now() } });
      shop.tell(shop.say(before === choice ? 'unvoted' : 'voted'));
    } catch (error) {
      choose(before);
      complain(shop.problems(error)[0]);
    }
  };
  const buttons = [true, false].map((helpful) => ({
    helpful,
    /** Votes are sent one after the other. The second click of a double click is ignored. */
    button: h('button', { class: 'plain', click: /** @param {MouseEvent} event */
      ({ detail }) => detail > 1 || (turn = turn.then(() => vote(helpful))) }),
  }));
  choose(chosen);
  const question = shop.say('wasHelpful');
  return h('div', { class: 'row soft', role: 'group', 'aria-label': question },
    question, ...buttons.map((each) => each.button));
}

/**
 * An element with a text that a person wrote. Its direction and language are its own, not those of the page.
 * @param {'p' | 'span'} name
 * @param {string | null} text
 * @param {string | null} [lang]
 */
const written = (name, text, lang) =>
  Object.assign(h(name, { dir: 'auto', class: 'text' }, text), { lang: lang ?? '' });

/** @param {Shop} shop @param {Review} review */
function body(shop, review) {
  const text = written('p', review.text, review.language);
  if (review.text.length < LONG && review.text.split('\n').length <= LINES) return [text];
  text.classList.add('cut');
  const click = () => {
    text.classList.remove('cut');
    text.tabIndex = -1;
    text.focus();
    unfold.remove();
  };
  const unfold = h('button', { class: 'plain', click }, shop.say('readAll'));
  return [text, unfold];
}

/** @param {Shop} shop @param {Review} review @param {(index: number) => void} open */
function photos(shop, review, open) {
  const count = review.images.length;
  const small = review.images.map((image, index) => h('button', { click: () => open(index) },
    h('img', { src: shop.service + image.small, alt: shop.say('photo', { n: index + 1, count }), loading: 'lazy' })));
  return count > 0 && h('div', { class: 'row photos' }, ...small);
}

/** @param {Shop} shop @param {Review} review */
function item(shop, review) {
  const { reply } = review;
  const rating = h('span', { role: 'img', 'aria-label': shop.say('rated', { value: review.rating }) },
    stars(review.rating));
  const wrong = h('span', { class: 'wrong', role: 'status' });
  const complain = /** @param {string} text */ (text) => (wrong.textContent = text);
  /** @param {(they: typeof import('./plaudit-dialogs.js')) => void} use */
  const dialog = async (use) => {
    complain('');
    try {
      const they = await import('./plaudit-dialogs.js' + '#' + failures);
      shop.box.querySelector('dialog') ?? use(they);
    } catch {
      failures++;
      complain(shop.say('status.503'));
    }
  };
  const report = () => dialog((they) => they.report(shop, review));
  return h('li', { class: 'one stack', tabindex: -1 },
    h('div', { class: 'row' }, rating, review.title && h('h3', {}, written('span', review.title, review.language))),
    h('p', { class: 'row soft' }, h('bdi', {}, review.author || shop.say('anonymous')), day(shop, review.date),
      review.verified && h('span', { class: 'mark' }, '✓ ' + shop.say('bought')),
      review.incentivized && h('span', {}, shop.say('incentivized'))),
    ...body(shop, review),
    photos(shop, review, (index) => dialog((they) => they.lightbox(shop, review, index))),
    reply && h('div', { class: 'reply stack' },
      h('p', { class: 'row soft' },
        h('b', {}, shop.say('replyOf', { name: reply.author || shop.say('shop') })), day(shop, reply.date)),
      written('p', reply.text)),
    h('div', { class: 'row' },
      votes(shop, review, complain),
      h('button', { class: 'plain soft', click: report }, shop.say('report')), wrong));
}

/** The list of reviews, page by page, with its filters and its order. @param {Shop} shop */
function listOf(shop) {
  const { say } = shop;
  /** @type {Record<string, string>} */
  const wanted = { sort: ORDERS[0] };
  /** @type {HTMLElement[]} */
  let toggles = [];
  /** @type {string | null} */
  let after = null;
  /** @type {Set<string>} */
  let shown = new Set();
  let turn = 0;
  const items = h('ol');
  const note = h('p', { class: 'soft' });
  const more = h('button', { click: load });

  /** @returns {Promise<Page>} */
  const page = () => shop.ask('/reviews?' + new URLSearchParams({ ...wanted, take: TAKE, ...(after && { after }) }));

  /** @param {Page} found */
  function put(found) {
    const isMore = after;
    after = found.next;
    if (!isMore) {
      items.replaceChildren();
      shown = new Set();
    }
    /** Reviews that votes have moved come twice: those that are shown are left out. */
    const rows = found.results.filter(({ id }) => !shown.has(id) && shown.add(id)).map((review) => item(shop, review));
    items.append(...rows);
    more.hidden = !after;
    /** The focused button is about to be removed: the focus moves to the top of the list. */
    if (note.querySelector(':focus')) order.focus();
    note.replaceChildren();
    if (!items.firstChild) note.append(say('none'), ' ', h('button', { class: 'plain', click: clear }, say('showAll')));
    if (isMore) rows[0]?.focus();
  }

  /** Load the reviews that follow the cursor `after`, or the first ones if it is null. */
  async function load() {
    const mine = ++turn;
    more.hidden = !after;
    shop.box.ariaBusy = 'true';
    try {
      const found = await page();
      if (mine != turn) return;
      put(found);
      shop.tell(say('shown', { n: items.childElementCount }));
    } catch {
      if (mine != turn) return;
      after || items.replaceChildren();
      if (note.querySelector(':focus')) order.focus();
      note.replaceChildren(say('failed'), ' ', h('button', { class: 'plain', click: load }, say('retry')));
      shop.tell(say('failed'));
    }
    shop.box.ariaBusy = null;
  }

  /** @param {string} name @param {string} value */
  function want(name, value) {
    if (wanted[name] == value) delete wanted[name];
    else wanted[name] = value;
    narrow();
  }

  function clear() {
    for (const { dataset } of toggles) delete wanted[dataset.name ?? ''];
    order.focus();
    narrow();
  }

  function narrow() {
    for (const each of toggles) each.ariaPressed = `${wanted[each.dataset.name ?? ''] == each.dataset.value}`;
    /** The cursor belongs to the list before. */
    after = null;
    load();
  }

  /**
   * A button that switches a filter on and off.
   * @param {string} name
   * @param {string} value
   * @param {Record<string, any>} attributes
   * @param {any[]} children
   */
  function toggle(name, value, attributes, ...children) {
    const click = () => want(name, value);
    const button = h('button',
      { 'data-name': name, 'data-value': value, 'aria-pressed': 'false', click, ...attributes }, ...children);
    toggles.push(button);
    return button;
  }

  const order = h('select', { change: () => want('sort', order.value) });

  /** @param {Page} first */
  function show(first) {
    order.append(...ORDERS.map((value) => h('option', { value }, say(value))));
    more.append(say('more'));
    put(first);
    const narrowing = ['photos', 'verified'].map((name) => toggle(name, 'true', {}, say(name)));
    return [h('div', { class: 'row' }, ...narrowing, h('label', { class: 'row' }, say('sort'), order)), items, note,
      h('div', {}, more)];
  }
  return { page, show, toggle };
}

/**
 * The rating with its stars, and a bar with the number of reviews for each number of stars.
 * @param {Shop} shop
 * @param {Summary} summary
 * @param {ReturnType<typeof listOf>} list
 */
function top(shop, { value, reviewCount, histogram }, list) {
  const { say } = shop;
  const reviews = say('reviews', { n: reviewCount });
  const bar = /** @param {number} n */ (n) => {
    const count = histogram?.[n] ?? 0;
    const a = say('stars', { n });
    const name = say('pair', { a, b: say('reviews', { n: count }) });
    const width = `${(100 * count) / reviewCount}%`;
    return list.toggle('stars', `${n}`, { class: 'plain bar', disabled: !count, 'aria-label': name },
      h('span', {}, a),
      h('svg', { 'aria-hidden': true }, h('rect', { width, height: '100%' })),
      h('span', {}, say('{n}', { n: count })));
  };
  return h('div', { class: 'top' },
    h('div', { class: 'sum', role: 'img', 'aria-label': say('pair', { a: say('rated', { value }), b: reviews }) },
      h('b', {}, say('{n}', { n: value })), stars(value), h('span', { class: 'soft' }, reviews)),
    histogram && h('div', { class: 'bars' }, ...[5, 4, 3, 2, 1].map(bar)));
}

/** The button that opens the form. @param {Shop} shop */
function writing(shop) {
  const place = h('div', { class: 'stack' });
  const open = async () => {
    const isOpen = button.ariaExpanded == 'true';
    button.ariaExpanded = `${!isOpen}`;
    place.hidden = isOpen;
    if (isOpen || place.querySelector('form')) return;
    place.replaceChildren(h('p', { class: 'soft', role: 'status' }, shop.say('loading')));
    try {
      await (await import('./plaudit-form.js' + '#' + failures)).open(shop, place, failures);
    } catch {
      failures++;
      button.ariaExpanded = 'false';
      place.replaceChildren(h('p', { class: 'soft', role: 'status' }, shop.say('problem')));
    }
  };
  const button = h('button', { class: 'main', 'aria-expanded': 'false', click: open }, shop.say('write'));
  if (shop.token) open();
  return h('div', { class: 'stack' }, h('div', {}, button), place);
}

class PlauditReviews extends HTMLElement {
  static observedAttributes = ['store', 'type', 'entity', 'src', 'lang', 'token'];
  #root = this.attachShadow({ mode: 'open' });
  /** @type {HTMLElement | undefined} */
  #box;
  #shown = '';

  /** Show the reviews, unless they are shown: pages move the element, or set its attributes, while somebody writes. */
  connectedCallback() {
    const language = languageOf(this);
    const dir = closest(this, '[dir]') ? getComputedStyle(this).direction : language.startsWith('ar') ? 'rtl' : 'ltr';
    const wanted = JSON.stringify([language, dir,
      ...PlauditReviews.observedAttributes.map((name) => this.getAttribute(name))]);
    if (wanted == this.#shown) return;
    this.#shown = wanted;
    this.#show(language, dir);
  }

  /** @param {string} language @param {string} dir */
  #show(language, dir) {
    const bones = [...Array(8)].map(() => h('div', { class: 'bone' }));
    const box = h('section', { lang: language, dir, tabindex: -1, 'aria-busy': true }, ...bones);
    this.#root.adoptedStyleSheets = [SHEET];
    this.#root.replaceChildren(box);
    this.#box = box;
    /** Attributes that are changed together cause one request. */
    queueMicrotask(() => this.#box == box && this.#fill(box));
    return box;
  }

  attributeChangedCallback() {
    if (this.isConnected) this.connectedCallback();
  }

  /** @param {HTMLElement} box */
  async #fill(box) {
    const shop = shopOf(this, box);
    const list = listOf(shop);
    const words = shop.ask(`languages/${box.lang.slice(0, 2)}.json`).then((found) => (shop.words = found));
    const found = await Promise.all([shop.ask('/summary'), list.page(), words]).catch(() => null);
    if (this.#box != box) return;
    box.ariaBusy = null;
    if (!found) {
      await words.catch(() => {});
      const click = () => this.#show(box.lang, box.dir).focus();
      const again = h('button', { class: 'plain', click }, shop.say('retry'));
      box.replaceChildren(h('p', { class: 'soft', role: 'status' }, shop.say('failed'), ' ', again));
      return;
    }
    /** @type {[Summary, Page, unknown]} */
    const [summary, page] = found;
    const parts = summary.reviewCount || page.results.length
      ? [top(shop, summary, list), writing(shop), ...list.show(page)]
      : [h('p', { class: 'soft' }, shop.say('empty')), writing(shop)];
    box.replaceChildren(h('h2', {}, shop.say('title')), ...parts, shop.status);
    shop.fire('loaded', summary);
  }
}

define('plaudit-reviews', PlauditReviews);
