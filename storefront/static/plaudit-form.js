/** The form of `<plaudit-reviews>`: a review with photos, and the proof of work that a store may ask for. */

import { h, stars } from './plaudit-stars.js';

/** @typedef {import('./types').Shop} Shop */

const SLICE = 500;
const UPLOAD_MS = 300_000;
const WAIT = { Prefer: 'wait=10' };
const PREVIEW = 176;
const DRAFT = 'plaudit:draft/';

/** The form that was opened last for each object: it owns the draft. @type {Record<string, HTMLElement>} */
const latest = {};

const sleep = /** @param {number} ms */ (ms) => new Promise((done) => setTimeout(done, ms));

/**
 * The draft that this tab stores: the texts by their fields, the uploaded photos, and the last attempt to send it.
 * @param {Shop} shop
 * @returns {Record<string, any>}
 */
function kept({ place }) {
  try {
    return JSON.parse(sessionStorage[DRAFT + place]);
  } catch {
    return {};
  }
}

/** Store the draft, if the browser allows that. @param {Shop} shop @param {Record<string, any>} words */
function keep({ place }, words) {
  try {
    sessionStorage[DRAFT + place] = JSON.stringify(words);
  } catch {}
}

/**
 * The proof of work, as the service expects it; undefined if none is required, or no solution is found.
 * @param {Shop} shop
 * @param {import('./types').Check | null} check
 */
async function solve(shop, check) {
  if (!check) return;
  const { algorithm, challenge, salt, maxnumber } = check;
  const hash = async (/** @type {number} */ number) => {
    const digest = new Uint8Array(await crypto.subtle.digest(algorithm, new TextEncoder().encode(salt + number)));
    return shop.hex(digest) == challenge;
  };
  for (let from = 0; from <= maxnumber; from += SLICE) {
    const found = await Promise.all([...Array(SLICE).keys()].map((at) => hash(from + at)));
    const at = found.indexOf(true);
    if (at >= 0) return btoa(JSON.stringify({ ...check, number: from + at }));
    await sleep(0);
  }
}

/**
 * The photos of a review that is being written.
 * @param {Shop} shop
 * @param {() => import('./types').Form} current
 * @param {() => void} changed
 * @param {() => boolean} isSending
 */
function photosOf(shop, current, changed, isSending) {
  const { say } = shop;
  /**
   * By the row in the list, whose id is that of the photo once it is uploaded.
   * @type {Map<Element, { name: string, upload: () => Promise<void> }>}
   */
  const uploads = new Map();
  let turn = Promise.resolve();
  const list = h('ul', { class: 'stack', tabindex: -1 });
  const { mostImages: most, mostImageBytes } = current();
  const input = h('input', { type: 'file', accept: 'image/jpeg,image/png,image/webp', multiple: true, change: take });

  function take() {
    for (const file of input.files ?? []) add(file);
    input.value = '';
  }

  /** Add a photo; one with an `id` was uploaded before a reload of the page. @param {any} file */
  function add(file) {
    const { name, id } = file;
    const canvas = h('canvas', { 'aria-hidden': true });
    const key = shop.hex();
    const state = h('span', { role: 'status', class: 'soft', id: key });
    let stop = new AbortController();
    const remove = () => {
      uploads.delete(row);
      stop.abort();
      changed();
      row.remove();
      limit();
      (input.disabled ? list : input).focus();
    };
    const button = h('button', {
      type: 'button', class: 'plain', click: remove, 'aria-label': say('removeName', { name }), 'aria-describedby': key,
    }, say('remove'));
    const row = h('li', { class: 'row', id }, canvas, h('bdi', { class: 'text' }, name), state, button);
    list.append(row);
    preview(file, canvas);
    const tell = /** @param {string} text @param {string} [kind] */ (text, kind = 'soft') => {
      state.className = kind;
      state.textContent = text;
    };
    if (uploads.size >= most) return tell(say('tooMany', { n: most }), 'wrong');
    const isTooLarge = file.size > mostImageBytes;
    const headers = { 'Content-Type': 'application/octet-stream', ...WAIT, 'Idempotency-Key': key };
    async function send() {
      if (!uploads.has(row)) return;
      tell(say('uploading'));
      const now = (stop = new AbortController());
      setTimeout(() => now.abort(), UPLOAD_MS);
      const options = { method: 'POST', body: file, headers, signal: now.signal };
      try {
        if (isTooLarge) throw { status: 413 };
        row.id ||= (await shop.ask('/images?' + new URLSearchParams({ stamp: current().stamp }), options)).id;
        tell(say('uploaded'));
        changed();
      } catch (error) {
        const { status = 0 } = /** @type {import('./types').Problem} */ (error);
        /** With other statuses a retry may succeed; with these the visitor has to remove the photo. */
        if (![409, 413, 415].includes(status)) sent = undefined;
        tell(isTooLarge ? say('tooLarge', { n: mostImageBytes / 1e6 }) : shop.problems(error).join(' '), 'wrong');
        throw Object.assign(Error(), error, { at: button });
      }
    }
    /** @type {Promise<void> | undefined} */
    let sent;
    /** Upload the photo once, and again with the review if that failed. One at a time, for slow connections. */
    const upload = () => (sent ??= turn = turn.catch(() => {}).then(send));
    uploads.set(row, { name, upload });
    upload().catch(() => {});
    limit();
  }

  /** No photo can be added while the review is being sent: it would be lost. */
  function limit() {
    input.disabled = isSending() || uploads.size >= most;
  }

  const field = h('label', {}, say('addPhotos', { n: most }), input);
  /** The photos' ids, once all are uploaded. Throws the error of a photo that hasn't been removed. */
  const ids = async () => {
    for (const [row, { upload }] of uploads) await upload().catch((error) => uploads.has(row) && Promise.reject(error));
    return [...uploads.keys()].map(({ id }) => id);
  };
  /** The uploaded photos, for the draft. */
  const uploaded = () => [...uploads].map(([{ id }, { name }]) => ({ id, name })).filter(({ id }) => id);
  return { part: most > 0 && h('div', { class: 'stack' }, field, list), ids, add, uploaded, limit };
}

/**
 * Draw the file as a small picture. The canvas is removed if the browser can't read the file.
 * @param {File} file
 * @param {HTMLCanvasElement} canvas
 */
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

/**
 * Five stars to choose from: a radio group.
 * @param {Shop} shop
 * @param {typeof import('./plaudit-dialogs.js').noteOf} noteOf
 */
function rating({ say }, noteOf) {
  const choices = [1, 2, 3, 4, 5].map((n) => {
    const input = h('input',
      { class: 'gone', type: 'radio', name: 'rating', value: n, required: true, 'aria-label': say('stars', { n }) });
    const star = stars(0);
    star.setAttribute('viewBox', '0 0 24 24');
    return h('label', { title: say('stars', { n }) }, input, star);
  });
  const group = h('fieldset', { role: 'radiogroup' },
    h('legend', {}, say('rating')), h('div', { class: 'rate' }, ...choices));
  group.append(noteOf(group, 'rating'));
  return group;
}

/** A token names the second in which it expires; a stamp begins with the time of the service, in milliseconds. */
function isExpired(/** @type {string} */ token, /** @type {string} */ stamp) {
  try {
    return JSON.parse(atob(token.split('.')[0].replace(/-/g, '+').replace(/_/g, '/')))[5] * 1000 <= parseInt(stamp);
  } catch {}
}

/**
 * Show the form in this place, with the fields that the service accepts.
 * @param {Shop} shop
 * @param {HTMLElement} place
 * @param {number} failures How often a module couldn't be loaded.
 */
export async function open(shop, place, failures) {
  const { say } = shop;
  /** @type {typeof import('./plaudit-dialogs.js')} */
  const { dress, formOf, noteOf, textField } = await import('./plaudit-dialogs.js' + '#' + failures);
  dress(shop);
  /** @type {() => Promise<import('./types').Form>} */
  const ask = () => shop.ask('/form', { cache: 'no-store' });
  let form = await ask();
  const refusal = !form.open ? 'refused.reviews-disabled'
    : shop.token ? isExpired(shop.token, form.stamp) && 'refused.token-expired' : !form.anonymous && 'invited';
  if (refusal) return place.replaceChildren(h('p', { role: 'status' }, say(refusal)));
  let opened = Date.now();
  /** @type {Promise<string | void> | undefined} */
  let solving;
  /** An unchanged review is sent again with the same key, also after a reload of the page: it is stored once. */
  let { attempt = {}, photos: before = [], ...words } = kept(shop);
  let isSending = false;

  const state = h('span', { class: 'soft', role: 'status' });
  const photos = photosOf(shop, () => form, save, () => isSending);
  const fields = formOf(shop, send, [
    rating(shop, noteOf),
    textField(say('headline'), 200, 'input', { name: 'title' }),
    textField(say('text'), 20_000, 'textarea', { name: 'review', required: true }),
    textField(say('name'), 128, 'input', { name: 'userName', autocomplete: 'name' }),
    photos.part,
    h('div', { class: 'gone', inert: true }, h('input', { name: 'website', autocomplete: 'off' })),
  ], h('button', { class: 'main' }, say('send')), state);
  fields.addEventListener('input', write);

  /** The proof of work, computed once. A browser that can't do it sends none: the service asks for it again. */
  const proof = () => (solving ??= solve(shop, form.check).catch(() => {}));

  /** Store the draft. A form that was replaced by another one doesn't overwrite its draft. */
  function save() {
    if (isOurs()) keep(shop, { ...written(), attempt, photos: photos.uploaded() });
  }
  const isOurs = () => fields.isConnected || latest[shop.place] == fields;
  const written = () => Object.fromEntries([...new FormData(fields)].filter(([, value]) => value));

  /** Store the draft after each input: it outlives a reload, or a phone that frees memory. */
  function write() {
    save();
    proof();
  }

  /**
   * Send the review. An expired stamp or proof of work is renewed once.
   * @param {boolean} [isAgain]
   * @returns {Promise<any>}
   */
  async function deliver(isAgain) {
    try {
      const check = await proof();
      await sleep(opened + form.leastSeconds * 1000 - Date.now());
      const images = await photos.ids();
      /** Only now: the fields can be changed while a photo is being uploaded. */
      const words = written();
      const said = { ...words, rating: +words.rating, images, token: shop.token || null };
      /** By now another form may have the draft, and send it. */
      if (!isOurs()) throw Error();
      const body = JSON.stringify(said);
      if (body != attempt.body) attempt = { body, key: shop.hex() };
      save();
      const all = JSON.stringify({ ...said, stamp: form.stamp, check });
      return await shop.send('/reviews', all, { ...WAIT, 'Idempotency-Key': attempt.key });
    } catch (error) {
      const { errors = [] } = /** @type {import('./types').Problem} */ (error);
      if (isAgain || !errors.some(({ pointer }) => pointer == '/stamp' || pointer == '/check')) throw error;
      form = await ask();
      opened = Date.now();
      solving = undefined;
      return deliver(true);
    }
  }

  async function send() {
    isSending = true;
    photos.limit();
    state.textContent = say('sending');
    try {
      const answer = await deliver();
      if (kept(shop).attempt?.key == attempt.key) keep(shop, {});
      const thanks = h('p', { tabindex: -1, role: 'status' }, say('thanks'));
      place.replaceChildren(thanks);
      thanks.focus();
      shop.fire('submitted', { id: answer.ids?.[0], rating: JSON.parse(attempt.body).rating });
    } finally {
      state.textContent = '';
      isSending = false;
      photos.limit();
    }
  }

  for (const [name, value] of Object.entries(words)) Object.assign(fields.elements.namedItem(name) ?? {}, { value });
  for (const photo of before) photos.add(photo);
  latest[shop.place] = fields;
  place.replaceChildren(fields);
}
