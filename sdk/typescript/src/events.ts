// A client's feed as an iterator that goes on by itself.

import type { Operation, Perform, Sending } from "./operation.js";
import { isPassing, type Runtime } from "./retries.js";
import type { Event, Feed as FeedPage, ListEventsQuery } from "./types.js";

/** How long one request waits for events, and how much longer its answer may take. */
const WAIT_SECONDS = 30;
const ANSWER_SECONDS = 30;
/** Between requests that are refused for a while, beyond the pauses of each request's own repeats. */
const PAUSE_SECONDS = 1;

/** Where a feed begins, and whether it waits for what comes. */
export interface Following extends ListEventsQuery {
  follow?: boolean;
}

/**
 * Events one after another. `cursor`: from where to go on, with `client.events({ after: cursor })`, after another
 * program was started: behind all events before the one that the iteration is at, or a few earlier. Undefined: nothing
 * was read yet.
 */
export class Feed implements AsyncIterable<Event> {
  cursor: string | undefined;
  readonly #perform: Perform;
  readonly #path: string;
  readonly #following: Following;
  readonly #runtime: Runtime;
  readonly #sending: Sending | undefined;

  constructor(perform: Perform, path: string, following: Following, runtime: Runtime, sending?: Sending) {
    this.cursor = following.after;
    this.#perform = perform;
    this.#path = path;
    this.#following = following;
    this.#runtime = runtime;
    this.#sending = sending;
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<Event, void, undefined> {
    const follow = this.#following.follow ?? true;
    for (;;) {
      const page = await this.#next(follow);
      if (page !== undefined) {
        yield* page.events;
        this.cursor = page.cursor;
        if (!follow && !page.more) {
          return;
        }
      }
    }
  }

  /** All events that there are, where the feed does not `follow`; otherwise it never ends. */
  async all(): Promise<Event[]> {
    const events: Event[] = [];
    for await (const event of this) {
      events.push(event);
    }
    return events;
  }

  /** The next page; undefined after a pause, when there was no answer. */
  async #next(follow: boolean): Promise<FeedPage | undefined> {
    const { follow: _, since, ...query } = this.#following;
    const operation: Operation<FeedPage> = {
      method: "GET",
      path: this.#path,
      query: {
        ...query,
        after: this.cursor,
        since: this.cursor === undefined ? since : undefined,
        wait_seconds: follow ? WAIT_SECONDS : undefined,
      },
      timeoutSeconds: ANSWER_SECONDS + (follow ? WAIT_SECONDS : 0),
      sending: this.#sending,
    };
    try {
      return await this.#perform(operation);
    } catch (error) {
      if (!follow || !isPassing(error)) {
        throw error;
      }
      await this.#runtime.sleep(PAUSE_SECONDS, this.#sending?.signal);
      return undefined;
    }
  }
}
