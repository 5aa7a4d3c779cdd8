// Sends operations, and repeats them where that is safe.

import { errorOf, MinutehandUnreachable, unreachable } from "./errors.js";
import { type Operation, preconditions, queryText } from "./operation.js";
import { type Limits, type Runtime, Turns } from "./retries.js";

/** What fetches: the platform's, or one with an agent, a proxy or authorities of its own. */
export type Fetch = (url: string, init: RequestInit) => Promise<Response>;

/** Sends operations to one API under one key. Throws TypeError for what can't be an address or a key. */
export class Sender {
  readonly #address: string;
  readonly #headers: Readonly<Record<string, string>>;
  readonly #timeoutSeconds: number;
  readonly #limits: Limits;
  readonly #fetch: Fetch;
  readonly #runtime: Runtime;

  constructor(url: string, key: string, timeoutSeconds: number, limits: Limits, fetch: Fetch, runtime: Runtime) {
    if (!/^https?:\/\//.test(url) || !URL.canParse(url)) {
      throw new TypeError(`${JSON.stringify(url)} is no address of an API: it begins with http:// or https://`);
    }
    if (!/^[\x21-\x7e]+$/.test(key)) {
      throw new TypeError(
        "this is no key: keys are printable ASCII without spaces or line breaks; was it copied completely?",
      );
    }
    if (!(limits.retries >= 0) || !(limits.deadlineSeconds >= 0) || !(timeoutSeconds > 0)) {
      throw new TypeError("retries and retryDeadlineSeconds can't be negative, and timeoutSeconds is above 0");
    }
    this.#address = url.replace(/\/+$/, "");
    this.#headers = { Authorization: `Bearer ${key}`, Accept: "application/json" };
    this.#timeoutSeconds = timeoutSeconds;
    this.#limits = limits;
    this.#fetch = fetch;
    this.#runtime = runtime;
  }

  async perform<T>(operation: Operation<T>): Promise<T> {
    const turns = new Turns(operation, this.#limits, this.#runtime);
    for (;;) {
      try {
        return await this.#once(operation, turns.key);
      } catch (error) {
        const pause = turns.pauseAfter(error);
        if (pause === undefined) {
          throw error;
        }
        await this.#runtime.sleep(pause, operation.sending?.signal);
      }
    }
  }

  async #once<T>(operation: Operation<T>, key: string | undefined): Promise<T> {
    const { sending = {}, body } = operation;
    const headers = new Headers({ ...this.#headers, ...preconditions(sending) });
    if (key !== undefined) {
      headers.set("Idempotency-Key", key);
    }
    if (body !== undefined) {
      headers.set("Content-Type", "application/json");
    }
    const late = AbortSignal.timeout((operation.timeoutSeconds ?? this.#timeoutSeconds) * 1000);
    const init: RequestInit = {
      method: operation.method,
      headers,
      // The API sends nobody elsewhere, and the key is for nobody else.
      redirect: "manual",
      signal: sending.signal === undefined ? late : AbortSignal.any([sending.signal, late]),
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
    };
    let response: Response;
    let text: string;
    try {
      response = await this.#fetch(this.#address + operation.path + queryText(operation.query ?? {}), init);
      text = await response.text();
    } catch (error) {
      sending.signal?.throwIfAborted();
      throw unreachable(this.#address, error);
    }
    return read(operation, response, text);
  }
}

function read<T>(operation: Operation<T>, response: Response, text: string): T {
  const { status, headers } = response;
  if ((status < 200 || status >= 300) && !operation.also?.includes(status)) {
    throw errorOf(status, headers, text);
  }
  if (text === "") {
    return undefined as T;
  }
  let value: T;
  try {
    value = JSON.parse(text) as T;
  } catch (cause) {
    throw new MinutehandUnreachable("the answer can't be read: is the address right?", { cause });
  }
  const tag = operation.tagged ? headers.get("etag") : null;
  return tag === null ? value : { ...value, etag: tag.replaceAll('"', "") };
}
