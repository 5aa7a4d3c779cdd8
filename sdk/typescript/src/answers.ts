// What a receiver can say beside its status: by headers of its answer, or later, about a call that it took by 202.
//
// The headers are obeyed where the client's settings allow it (`receiver_verbs`):
//
//     NOT_AGAIN     with status 489 or any other failure: no further attempt
//     callAt(due)   the schedule is called again at that instant, under the same id, and has not failed
//     STOP_CRON     the cron of this run is paused
//
// Work that takes longer than a request: if the callback has an `ackUrl`, answer 202, and say later what became of it.
//
//     await sayDone(callback.ackUrl, { frames: 4812 });

import type { AckAnswer, AckRequest } from "./types.js";

export const NOT_AGAIN = { "webhook-delivery": "abort-message" } as const;
export const STOP_CRON = { "Minutehand-Stop-Cron": "true" } as const;

/** Statuses of answers to a word after which it is sent again. */
const REPEATED: readonly number[] = [425, 429, 502, 503, 504];
const FIRST_PAUSE_SECONDS = 0.5;
const LONGEST_PAUSE_SECONDS = 10;
const LONGEST_REQUEST_SECONDS = 30;

/** It is not known whether the word counts, or it was refused. Say it again. */
export class AcknowledgementError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/**
 * No word about this call is awaited any more: it was called again, its deadline has passed, or it has ended. Stop the
 * work: another call may be doing it.
 */
export class StaleWordError extends AcknowledgementError {}

/** `patienceSeconds` (60): for so long it is said again while Minutehand can't be reached. `fetch`: the platform's. */
export interface SayOptions {
  patienceSeconds?: number;
  fetch?: (url: string, init: RequestInit) => Promise<Response>;
}

/** The header of an answer that asks to be called again at `due`. */
export function callAt(due: Date): { "Minutehand-Call-At": string } {
  return { "Minutehand-Call-At": due.toISOString() };
}

/**
 * The work is done: the schedule is delivered. `data` is kept with the attempt: anything that JSON can hold, up to 64
 * KiB. It is said again while Minutehand can't be reached or has not recorded the 202. Rejects with StaleWordError,
 * AcknowledgementError.
 */
export async function sayDone(ackUrl: string, data?: unknown, options?: SayOptions): Promise<void> {
  await say(ackUrl, { result: "done", data }, options);
}

/** The attempt has failed, and is retried by the schedule's policy. Otherwise as `sayDone`. */
export async function sayFailed(ackUrl: string, reason?: string, data?: unknown, options?: SayOptions): Promise<void> {
  await say(ackUrl, { result: "failed", ...(reason === undefined ? {} : { reason }), data }, options);
}

/**
 * The work goes on, and needs so long from now, or as long again as the callback's `ack` says. Fulfilled with the
 * instant until which a word is awaited, null if none is. Otherwise as `sayDone`.
 */
export async function askForTime(
  ackUrl: string,
  withinSeconds?: number,
  data?: unknown,
  options?: SayOptions,
): Promise<Date | null> {
  const longer = withinSeconds === undefined ? {} : { within_seconds: withinSeconds };
  const said = await say(ackUrl, { result: "extend", ...longer, data }, options);
  return said.deadline === null ? null : new Date(said.deadline);
}

async function say(ackUrl: string, word: AckRequest, options: SayOptions = {}): Promise<AckAnswer> {
  if (!/^https?:\/\//.test(ackUrl)) {
    throw new TypeError("ackUrl must be that of a callback, http or https");
  }
  const fetch = options.fetch ?? ((url, init) => globalThis.fetch(url, init));
  const body = JSON.stringify(word);
  const until = performance.now() / 1000 + (options.patienceSeconds ?? 60);
  for (let pause = FIRST_PAUSE_SECONDS; ; pause = Math.min(2 * pause, LONGEST_PAUSE_SECONDS)) {
    const left = until - performance.now() / 1000;
    const signal = AbortSignal.timeout(Math.min(Math.max(left, 1), LONGEST_REQUEST_SECONDS) * 1000);
    let wrong: string;
    try {
      const headers = { "Content-Type": "application/json" };
      // The address is Minutehand's own: it sends nobody elsewhere.
      const answer = await fetch(ackUrl, { method: "POST", headers, body, redirect: "manual", signal });
      const text = await answer.text();
      if (answer.ok) {
        return JSON.parse(text) as AckAnswer;
      }
      if (!REPEATED.includes(answer.status)) {
        throw refused(answer.status, text);
      }
      wrong = `Minutehand answered ${answer.status}`;
    } catch (error) {
      if (error instanceof AcknowledgementError) {
        throw error;
      }
      wrong = `no answer: ${error instanceof Error ? error.message : String(error)}`;
    }
    if (performance.now() / 1000 + pause > until) {
      throw new AcknowledgementError(wrong);
    }
    await new Promise((resolve) => setTimeout(resolve, pause * 1000));
  }
}

function refused(status: number, text: string): AcknowledgementError {
  return status === 404 || status === 409
    ? new StaleWordError(text)
    : new AcknowledgementError(`Minutehand answered ${status}: ${text}`);
}
