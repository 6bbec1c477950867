/** Ratings as stars, for lists: `<plaudit-stars store type entity>`. Those of a page are loaded 100 at a time. */

/**
 * For each language the words between the value and the number of reviews, and that number by plural category.
 * @type {Record<string, [outOf: string, reviews: Record<string, string>]>}
 */
const WORDS = {
  en: [' out of 5, ', { one: '# review', other: '# reviews' }],
  de: [' von 5, ', { one: '# Bewertung', other: '# Bewertungen' }],
  fr: [' sur 5, ', { other: '# avis' }],
  es: [' de 5, ', { one: '# opinión', other: '# opiniones' }],
  nl: [' van 5, ', { one: '# review', other: '# reviews' }],
  ar: [' من 5، ', { two: 'مراجعتان', few: '# مراجعات', other: '# مراجعة' }],
};
const FIVE = 'M12 2' + 'l3 6.2 6.8.9-5 4.7 1.3 6.7-6.1-3.3-6.1 3.3 1.3-6.7-5-4.7 6.8-.9zm24 0'.repeat(5);

/**
 * An element with attributes, listeners (functions) and children; those that are false, 0 or empty are left out.
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K | 'svg' | 'path' | 'rect'} name
 * @param {Record<string, any>} [attributes]
 * @param {...(Element | string | null | false | undefined)} children
 */
export function h(name, attributes = {}, ...children) {
  const element = /** @type {HTMLElementTagNameMap[K]} */ (/svg|path|rect/.test(name)
    ? document.createElementNS('http://www.w3.org/2000/svg', name) : document.createElement(name));
  for (const [key, value] of Object.entries(attributes)) {
    if (typeof value == 'function') element.addEventListener(key, value);
    else if (value) element.setAttribute(key, value);
  }
  for (const child of children) if (child) element.append(child);
  return element;
}

/** Five stars, of which `value` are full. @param {number} value */
export function stars(value) {
  return h('svg', { class: 'stars', viewBox: '0 0 120 24', 'aria-hidden': true },
    h('path', { d: FIVE }),
    h('svg', { width: `${value * 24}`, height: 24 }, h('path', { class: 'full', d: FIVE })));
}

/** The address of the service: the attribute `src`, else where this script is from. @param {Element} element */
export function serviceOf(element) {
  return (element.getAttribute('src') ?? new URL('../..', import.meta.url).href).replace(/\/+$/, '');
}

/**
 * The closest matching element: itself, or one around it, also outside of its shadow root.
 * @type {(element: Element | undefined, selector: string) => Element | undefined}
 */
export const closest = (element, selector) =>
  element && (element.closest(selector) ?? closest(/** @type {ShadowRoot} */ (element.getRootNode()).host, selector));

/**
 * The language of the page, like `de-AT`, if there are words in it, else `en`. Arabic is with Latin digits, as some of
 * its texts contain them.
 * @param {Element} element
 */
export function languageOf(element) {
  let tag = closest(element, '[lang]')?.getAttribute('lang') || navigator.language;
  try {
    [tag] = Intl.getCanonicalLocales(tag.replace(/^ar.*/i, '$&-u-nu-latn'));
  } catch {
    tag = tag.slice(0, 2);
  }
  return tag.split('-')[0] in WORDS ? tag : 'en';
}

/** @param {string} css */
export function sheet(css) {
  const made = new CSSStyleSheet();
  made.replaceSync(css + `
.stars{height:1.15em;vertical-align:-.2em;fill:var(--plaudit-line,light-dark(#cfd5dd,#454d5a))}
.stars .full{fill:var(--plaudit-star,light-dark(#b87400,#f2b84b))}
svg[aria-hidden]:dir(rtl){transform:scaleX(-1)}`);
  return made;
}

/**
 * Define an element, once. Browsers without its colours would show all stars as full: there it stays undefined.
 * @param {string} name
 * @param {CustomElementConstructor} element
 */
export const define = (name, element) =>
  customElements.get(name) || (CSS.supports('color', 'light-dark(red,red)') && customElements.define(name, element));

/** Until a rating is loaded, stars keep its place. They are hidden: they would show a rating of zero. */
const SHEET = sheet(
  '*{display:inline-block;white-space:nowrap;font-family:var(--plaudit-font,inherit)}:host>svg{visibility:hidden}');

/** @type {Set<PlauditStars>} Elements whose rating is still to be requested. */
const waiting = new Set();

function flush() {
  /** @type {Record<string, PlauditStars[]>} */
  const asking = {};
  /** The service refuses a request with an invalid id, so those are left out. */
  for (const each of waiting) if (/^[^,]{1,128}$/u.test(each.entity)) (asking[each.address] ??= []).push(each);
  waiting.clear();
  for (const [address, elements] of Object.entries(asking)) {
    /** @type {string[]} */
    let ids = [];
    const ask = async () => {
      try {
        const response = await fetch(address + ids, { credentials: 'omit' });
        /** @type {Record<string, import('./types').Summary>} */
        const found = response.ok ? await response.json() : {};
        for (const each of elements) if (each.address == address && found[each.entity]) each.show(found[each.entity]);
      } catch {}
    };
    for (const id of new Set(elements.map((each) => encodeURIComponent(each.entity)))) {
      /** The service accepts 100 ids, and proxies accept addresses of 8,000 characters. */
      if (ids.length == 100 || ids.join().length > 4000) {
        ask();
        ids = [];
      }
      ids.push(id);
    }
    ask();
  }
}

class PlauditStars extends HTMLElement {
  static observedAttributes = ['store', 'type', 'entity', 'src', 'lang'];
  #root = this.attachShadow({ mode: 'open' });

  get entity() {
    return this.getAttribute('entity') ?? '';
  }

  /** The address of the request for its rating, without the ids. */
  get address() {
    const part = /** @param {string} name */ (name) => encodeURIComponent(this.getAttribute(name) ?? '');
    return `${serviceOf(this)}/storefront/v1/${part('store')}/summaries?entityType=${part('type')}&ids=`;
  }

  connectedCallback() {
    this.#root.adoptedStyleSheets = [SHEET];
    this.#root.replaceChildren(stars(0));
    if (!waiting.size) requestAnimationFrame(flush);
    waiting.add(this);
  }

  attributeChangedCallback() {
    this.isConnected && this.connectedCallback();
  }

  /** @param {import('./types').Summary} summary */
  show({ value, reviewCount }) {
    const language = languageOf(this);
    const [outOf, reviews] = WORDS[language.slice(0, 2)];
    const { format } = new Intl.NumberFormat(language, { maximumFractionDigits: 1 });
    const count = format(reviewCount);
    const form = reviews[new Intl.PluralRules(language).select(reviewCount)] ?? reviews.other;
    const name = (reviewCount ? format(value) + outOf : '') + form.replace('#', count);
    this.#root.replaceChildren(
      h('span', { role: 'img', 'aria-label': name }, stars(value), reviewCount > 0 && ` (${count})`));
  }
}

define('plaudit-stars', PlauditStars);
