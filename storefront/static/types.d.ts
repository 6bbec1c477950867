/** The service's answers, as docs/http.md has them. For the type checker alone: no page loads this file. */

export interface Summary {
  value: number;
  average: number;
  reviewCount: number;
  histogram: Record<string, number> | null;
}

export interface Photo {
  id: string;
  small: string;
  large: string;
}

export interface Review {
  id: string;
  rating: number;
  title: string | null;
  text: string;
  author: string | null;
  date: string;
  language: string | null;
  verified: boolean;
  incentivized: boolean;
  images: Photo[];
  reply: { text: string; author: string | null; date: string } | null;
  helpful: number;
  notHelpful: number;
  /** The dialog to report it, once it has been opened: the service doesn't send it. */
  report?: HTMLDialogElement;
}

export interface Page {
  results: Review[];
  next: string | null;
}

/** A proof of work in the manner of ALTCHA: the number whose SHA-256 together with the salt is the challenge. */
export interface Check {
  algorithm: "SHA-256";
  challenge: string;
  salt: string;
  maxnumber: number;
  signature: string;
}

export interface Form {
  stamp: string;
  leastSeconds: number;
  open: boolean;
  anonymous: boolean;
  mostImages: number;
  mostImageBytes: number;
  check: Check | null;
}

/** A problem of RFC 9457, or nothing of it where no service answered. */
export interface Problem {
  status?: number;
  detail?: string;
  errors?: Wrong[];
  results?: Wrong[];
  /** What to do about it is said at this element, which is no field of the form. */
  at?: HTMLElement;
}

/** One thing that is wrong with a request, or the outcome of an item that was refused. */
export interface Wrong {
  pointer?: string;
  code?: string;
  message?: string;
  reason?: string;
}

/** A text with `{names}`, or one for each plural category of its number `n`. */
export type Words = Record<string, string | Record<string, string>>;

/** What the parts of the widget share. */
export interface Shop {
  /** The service, without a slash at its end. */
  service: string;
  /** The store, the type and the object, as they stand in an address. */
  place: string;
  /** All that is shown, in its language and direction. */
  box: HTMLElement;
  status: HTMLElement;
  words: Words;
  token: string | null;
  /** An answer of the service: of the object for `/path`, else of the storefront. Throws a Problem. */
  ask(path: string, options?: RequestInit): Promise<any>;
  send(path: string, body: string, headers?: Record<string, string>, method?: string): Promise<any>;
  /** A text in the language of the page. */
  say(key: string, values?: Record<string, string | number>): string;
  /** Tell people who can't see what has changed. */
  tell(text: string): void;
  /** What went wrong, in the language of the page: by the codes that are known, else by the status. */
  problems(problem: any): string[];
  /** Bytes, by default 16 random ones, in hexadecimal digits. */
  hex(bytes?: Uint8Array): string;
  fire(name: string, detail: unknown): void;
}
