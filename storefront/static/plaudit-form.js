/** The form of `<plaudit-reviews>`: a review with photos, and the proof of work that a store may ask for. */

import { dress } from './plaudit-dialogs.js';
import { h, stars } from './plaudit-stars.js';

/** @typedef {import('./types').Shop} Shop */

const SLICE = 500;
const UPLOAD_MS = 300_000;
const WAIT = { Prefer: 'wait=10' };
const PREVIEW = 176;
const FINAL = [409, 413, 415];
const DRAFT = 'plaudit:draft/';

const sleep = /** @param {number} ms */ (ms) => new Promise((done) => setTimeout(done, ms));

/** The words that wait in this tab to be sent, by their fields. @param {Shop} shop @returns {Record<string, string>} */
function kept({ place }) {
  try {
    return JSON.parse(sessionStorage.getItem(DRAFT + place) ?? '{}');
  } catch {
    return {};
  }
}

/** Keep them where that is allowed. @param {Shop} shop @param {Record<string, FormDataEntryValue>} words */
function keep({ place }, words) {
  try {
    sessionStorage.setItem(DRAFT + place, JSON.stringify(words));
  } catch {}
}

/** The proof that a number was searched for, as the service reads it. @param {import('./types').Check} check */
export async function solve({ algorithm, challenge, salt, maxnumber, signature }) {
  const encoder = new TextEncoder();
  const hash = async (/** @type {number} */ number) => {
    const digest = new Uint8Array(await crypto.subtle.digest(algorithm, encoder.encode(salt + number)));
    return Array.from(digest, (byte) => byte.toString(16).padStart(2, '0')).join('') == challenge;
  };
  for (let from = 0; from <= maxnumber; from += SLICE) {
    const found = await Promise.all(Array.from({ length: SLICE }, (_, at) => hash(from + at)));
    const at = found.indexOf(true);
    if (at >= 0) return btoa(JSON.stringify({ algorithm, challenge, number: from + at, salt, signature }));
    await sleep(0);
  }
  throw new Error('the challenge has no solution');
}

/** The photos of a review that is being written. @param {Shop} shop @param {() => import('./types').Form} current */
function photosOf(shop, current) {
  const { say } = shop;
  /** @type {Map<Element, () => Promise<string>>} */
  const uploads = new Map();
  const list = h('ul', { class: 'stack' });
  const most = current().mostImages;
  const input = h('input', { type: 'file', accept: 'image/jpeg,image/png,image/webp', multiple: true, change: take });

  function take() {
    for (const file of input.files ?? []) add(file);
    input.value = '';
  }

  /** @param {File} file */
  function add(file) {
    const { name } = file;
    const canvas = h('canvas', { 'aria-hidden': 'true' });
    const state = h('span', { role: 'status', class: 'soft' });
    const remove = () => {
      uploads.delete(row);
      row.remove();
      input.disabled = false;
      input.focus();
    };
    const row = h('li', { class: 'row' }, canvas, h('bdi', { class: 'text' }, name), state,
      h('button', { type: 'button', class: 'plain', 'aria-label': say('removeName', { name }), click: remove }, say('remove')));
    list.append(row);
    preview(file, canvas);
    const tell = /** @param {string} text @param {string} [kind] */ (text, kind = 'soft') => {
      state.className = kind;
      state.textContent = text;
    };
    if (uploads.size >= most) return tell(say('tooMany', { n: most }), 'wrong');
    /** It stays so until the photo is removed. @param {unknown} error */
    const refuse = (error) => uploads.set(row, () => Promise.reject(error));
    const headers = { 'Content-Type': 'application/octet-stream', ...WAIT, 'Idempotency-Key': shop.random() };
    async function send() {
      tell(say('uploading'));
      const options = { method: 'POST', body: file, headers, signal: AbortSignal.timeout(UPLOAD_MS) };
      try {
        const { id } = await shop.ask('/images?' + new URLSearchParams({ stamp: current().stamp }), options);
        tell(say('uploaded'));
        return id;
      } catch (error) {
        sent = undefined;
        tell(shop.problems(error).join(' '), 'wrong');
        if (FINAL.includes(/** @type {import('./types').Problem} */ (error).status ?? 0)) refuse(error);
        throw error;
      }
    }
    /** @type {Promise<string> | undefined} */
    let sent;
    const { mostImageBytes } = current();
    if (file.size > mostImageBytes) {
      tell(say('tooLarge', { n: mostImageBytes / 1e6 }), 'wrong');
      refuse({ errors: [{ code: 'image-too-costly' }] });
    } else {
      /** Sent once, and anew with the review where that was cut off. */
      const upload = () => (sent ??= send());
      uploads.set(row, upload);
      upload().catch(() => {});
    }
    input.disabled = uploads.size >= most;
  }

  const field = h('label', {}, say('addPhotos', { n: most }), input);
  /** The photos' ids, once all are there. Throws what is wrong with one of them that hasn't been removed. */
  const ids = async () => {
    const made = await Promise.all([...uploads].map(async ([row, upload]) => {
      const id = await upload().catch((error) => uploads.has(row) && Promise.reject(error));
      return uploads.has(row) && id;
    }));
    return made.filter(Boolean);
  };
  return { part: most > 0 && h('div', { class: 'stack' }, field, list), ids };
}

/** The file as a small picture; none of what the browser can't read. @param {File} file @param {HTMLCanvasElement} canvas */
async function preview(file, canvas) {
  try {
    const picture = await createImageBitmap(file, { resizeWidth: PREVIEW });
    canvas.width = picture.width;
    canvas.height = picture.height;
    canvas.getContext('2d')?.drawImage(picture, 0, 0);
  } catch {
    canvas.remove();
  }
}

/** Five stars to choose from: a radio group. @param {Shop} shop */
function rating({ say }) {
  const choices = [1, 2, 3, 4, 5].map((n) => {
    const input = h('input', { class: 'gone', type: 'radio', name: 'rating', value: n, required: true, 'aria-label': say('stars', { n }) });
    return h('label', { title: say('stars', { n }) }, input, star());
  });
  return h('fieldset', {}, h('legend', {}, say('rating')), h('div', { class: 'rate' }, ...choices));
}

/** One star. */
function star() {
  const drawing = stars(0);
  drawing.setAttribute('viewBox', '0 0 24 24');
  return drawing;
}

/** Show the form in this place, once the service has said what it takes. @param {Shop} shop @param {HTMLElement} place */
export async function open(shop, place) {
  const { say } = shop;
  const known = { cache: /** @type {const} */ ('no-store') };
  /** @type {import('./types').Form} */
  let form = await shop.ask('/form', known);
  if (!form.open || (!form.anonymous && !shop.token)) {
    place.replaceChildren(h('p', { role: 'status' }, say(form.open ? 'invited' : 'refused.reviews-disabled')));
    return;
  }
  let opened = Date.now();
  /** @type {Promise<string> | undefined} */
  let solving;
  let attempt = { body: '', key: '' };
  let isSending = false;
  dress(shop);

  const problems = h('div', { class: 'wrong', role: 'alert' });
  const state = h('span', { class: 'soft', role: 'status' });
  const photos = photosOf(shop, () => form);
  const field = /** @param {string} name @param {string} key @param {Record<string, any>} more */ (name, key, more) =>
    h('label', {}, say(key), h(name == 'review' ? 'textarea' : 'input', { name, dir: 'auto', ...more }));
  const fields = h('form', { submit: send, input: write },
    rating(shop),
    field('title', 'headline', { maxlength: 200 }),
    field('review', 'text', { maxlength: 20_000, required: true }),
    field('userName', 'name', { maxlength: 128, autocomplete: 'name' }),
    photos.part,
    h('div', { class: 'gone', 'aria-hidden': 'true', inert: true }, h('input', { name: 'website', tabindex: '-1', autocomplete: 'off' })),
    problems,
    h('div', { class: 'row' }, h('button', { class: 'main' }, say('send')), state));

  /** The solved challenge, searched for once; nothing where none is asked for. */
  async function proof() {
    try {
      return await (solving ??= form.check ? solve(form.check) : Promise.resolve(''));
    } catch (error) {
      solving = undefined;
      throw error;
    }
  }

  const written = () => Object.fromEntries([...new FormData(fields)].filter(([, value]) => value));

  /** A page that is loaded again, or a phone that needs its memory, takes no words away. */
  function write() {
    keep(shop, written());
    proof().catch(() => {});
  }

  /** Send it; a stamp or a check that has become too old is renewed once. @param {boolean} [isAgain] @returns {Promise<any>} */
  async function deliver(isAgain) {
    try {
      const { rating, ...texts } = written();
      const check = await proof();
      const said = { rating: Number(rating), ...texts, images: await photos.ids(), ...(shop.token && { token: shop.token }) };
      await sleep(opened + form.leastSeconds * 1000 - Date.now());
      const body = JSON.stringify(said);
      if (body != attempt.body) attempt = { body, key: shop.random() };
      const all = JSON.stringify({ ...said, stamp: form.stamp, ...(check && { check }) });
      return await shop.send('/reviews', all, { ...WAIT, 'Idempotency-Key': attempt.key });
    } catch (error) {
      const { errors = [] } = /** @type {import('./types').Problem} */ (error);
      if (isAgain || !errors.some(({ pointer }) => pointer == '/stamp' || pointer == '/check')) throw error;
      form = await shop.ask('/form', known);
      opened = Date.now();
      solving = undefined;
      return deliver(true);
    }
  }

  /** @param {Event} event */
  async function send(event) {
    event.preventDefault();
    if (isSending) return;
    isSending = true;
    problems.replaceChildren();
    state.textContent = say('sending');
    try {
      const answer = await deliver();
      keep(shop, {});
      const thanks = h('p', { tabindex: -1, role: 'status' }, say('thanks'));
      place.replaceChildren(thanks);
      thanks.focus();
      shop.fire('submitted', { id: answer.ids?.[0], rating: Number(new FormData(fields).get('rating')) });
    } catch (error) {
      state.textContent = '';
      problems.append(...shop.problems(error).map((text) => h('p', {}, text)));
      const wrong = /** @type {import('./types').Problem} */ (error).errors?.map(({ pointer }) => pointer?.slice(1)) ?? [];
      for (const each of fields.querySelectorAll('[name]')) each.ariaInvalid = wrong.includes(each.getAttribute('name') ?? '') ? 'true' : null;
    }
    isSending = false;
  }

  for (const [name, text] of Object.entries(kept(shop))) Object.assign(fields.elements.namedItem(name) ?? {}, { value: text });
  place.replaceChildren(fields);
}
