// When a request that got no answer, or a temporary refusal, is sent again.

import { MinutehandApiError, MinutehandUnreachable } from "./errors.js";
import { isRepeatable, type Operation } from "./operation.js";

/** Time and randomness as retries need them; a port for tests. */
export interface Runtime {
  /** Seconds that never go back. */
  monotonic(): number;
  /** Uniform in [0, 1). */
  fraction(): number;
  /** A new idempotency key. */
  newKey(): string;
  /** Ends early, with the reason of the signal, when that is aborted. */
  sleep(seconds: number, signal?: AbortSignal): Promise<void>;
}

export const systemRuntime: Runtime = {
  monotonic: () => performance.now() / 1000,
  fraction: () => Math.random(),
  newKey: () => crypto.randomUUID(),
  sleep: (seconds, signal) =>
    new Promise((resolve, reject) => {
      signal?.throwIfAborted();
      const stop = () => {
        clearTimeout(timer);
        reject(signal?.reason as Error);
      };
      const timer = setTimeout(() => {
        signal?.removeEventListener("abort", stop);
        resolve();
      }, seconds * 1000);
      signal?.addEventListener("abort", stop, { once: true });
    }),
};

/**
 * How often an operation is repeated at most, and how many seconds after its first request the last repeat may begin.
 */
export interface Limits {
  readonly retries: number;
  readonly deadlineSeconds: number;
}

const BASE_SECONDS = 0.2;
const CAP_SECONDS = 10;
const LATER: readonly number[] = [429, 503];

/** The requests of one operation, which all do the same: they carry the same key. */
export class Turns {
  readonly key: string | undefined;
  readonly #operation: Operation<unknown>;
  readonly #limits: Limits;
  readonly #runtime: Runtime;
  readonly #began: number;
  #done = 0;

  constructor(operation: Operation<unknown>, limits: Limits, runtime: Runtime) {
    this.#operation = operation;
    this.#limits = limits;
    this.#runtime = runtime;
    this.#began = runtime.monotonic();
    // A key costs the API a conditional write, so none is generated for what is never repeated.
    const needed = operation.keyed === true && limits.retries > 0;
    this.key = operation.sending?.idempotencyKey ?? (needed ? runtime.newKey() : undefined);
  }

  /**
   * Seconds to wait before the repeat: what the API asks for plus 0.2 s, doubled with every repeat up to 10 s, with
   * half jitter. Undefined: give up.
   */
  pauseAfter(error: unknown): number | undefined {
    const allowed = isRepeatable(this.#operation) || wasRefused(error);
    if (!allowed || this.#done >= this.#limits.retries || !isPassing(error)) {
      return undefined;
    }
    const backoff = Math.min(CAP_SECONDS, BASE_SECONDS * 2 ** this.#done);
    const asked = error instanceof MinutehandApiError ? (error.retryAfterSeconds ?? 0) : 0;
    const pause = asked + (backoff * (1 + this.#runtime.fraction())) / 2;
    if (this.#runtime.monotonic() + pause > this.#began + this.#limits.deadlineSeconds) {
      return undefined;
    }
    this.#done += 1;
    return pause;
  }
}

/** Whether a repeat may succeed a little later. */
export function isPassing(error: unknown): boolean {
  if (error instanceof MinutehandApiError) {
    return LATER.includes(error.status);
  }
  return error instanceof MinutehandUnreachable && error.passing;
}

/** Whether a rate limit refused the request before anything was done: then any request may be repeated. */
function wasRefused(error: unknown): boolean {
  return error instanceof MinutehandApiError && error.status === 429;
}
