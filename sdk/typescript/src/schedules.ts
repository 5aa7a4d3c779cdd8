// A client's schedules: create, look at, change, list.

import { type Absent, type Keyed, type Matching, type Operation, path, type Sending } from "./operation.js";
import { allItems, itemsOf, Pages } from "./pages.js";
import { Part } from "./part.js";
import type {
  Attempt,
  Batch,
  BatchItem,
  Callback,
  CancelItem,
  CancelRequest,
  Count,
  CountSchedulesQuery,
  ListSchedulesQuery,
  NewSchedule,
  Page,
  RescheduleItem,
  RescheduleRequest,
  Schedule,
  SentCallback,
  Story,
  UpdateRequest,
  WindowRescheduleRequest,
} from "./types.js";

/** A schedule, and the tag of what was seen of it, for `ifMatch`; without one if the API has sent none. */
export type TaggedSchedule = Schedule & { etag?: string };

/** A client's schedules. */
export class Schedules extends Part {
  /** Create one call at `due` or after `delay_seconds`. When the promise is fulfilled, it is durable. */
  async create(
    callback: Callback,
    options: Omit<NewSchedule, "callback"> = {},
    sending?: Keyed,
  ): Promise<TaggedSchedule> {
    return this.#one({ method: "POST", path: this.#all, body: { callback, ...options }, keyed: true, sending });
  }

  /**
   * Create one call under your own key, or replace the one that waits under it: exactly one of the two is called.
   *
   * `latest`: however often the call is replaced while it waits, it is due then at the latest; the first put's counts.
   * Conflict: in-flight (the present one is being called). `ifMatch`: only if the key names this schedule.
   */
  async put(
    key: string,
    callback: Callback,
    options: Omit<NewSchedule, "callback" | "key"> = {},
    sending?: Keyed & Matching & Absent,
  ): Promise<TaggedSchedule> {
    const body = { callback, ...options };
    return this.#one({ method: "PUT", path: this.#byKey(key), body, keyed: true, sending });
  }

  /** The schedule that a key names. */
  async getByKey(key: string, sending?: Sending): Promise<TaggedSchedule> {
    return this.#one({ method: "GET", path: this.#byKey(key), sending });
  }

  /** Cancel the schedule that a key names. Refused as `cancel` is. */
  async cancelByKey(key: string, sending?: Matching): Promise<TaggedSchedule> {
    return this.#one({ method: "DELETE", path: this.#byKey(key), sending });
  }

  /** Create up to 1,000 at once. Results in order: one may be refused and the next created. */
  async createBatch(items: readonly NewSchedule[], sending?: Keyed): Promise<BatchItem[]> {
    const operation = { method: "POST", path: `${this.#all}:batch`, body: { items }, keyed: true, sending } as const;
    return itemsOf(this.perform<Batch>(operation));
  }

  async get(scheduleId: string, sending?: Sending): Promise<TaggedSchedule> {
    return this.#one({ method: "GET", path: this.#id(scheduleId), sending });
  }

  /**
   * Cancel a schedule. When the promise is fulfilled, the receiver is not called any more; with `reason` in-doubt it
   * may have been called before. Conflict: in-flight, already-finished, or rescheduled (`problem.rescheduled_to` is
   * called instead).
   */
  async cancel(scheduleId: string, sending?: Matching): Promise<TaggedSchedule> {
    return this.#one({ method: "DELETE", path: this.#id(scheduleId), sending });
  }

  /** Cancel up to 1,000 at once. Results in order. A rescheduled one is not followed to its successor. */
  async cancelMany(scheduleIds: readonly string[], sending?: Sending): Promise<CancelItem[]> {
    const body = { schedule_ids: scheduleIds };
    const operation = { method: "POST", path: `${this.#all}:cancel`, body, sending } as const;
    return itemsOf(this.perform<Page<CancelItem>>(operation));
  }

  /**
   * Cancel whatever has not ended, is due from `from` until before `to` and matches the filters. Schedules that were
   * rescheduled to an instant outside are not included.
   */
  async cancelWindow(window: Omit<CancelRequest, "schedule_ids" | "cursor">, sending?: Sending): Promise<CancelItem[]> {
    return allItems(this.perform, (cursor) => ({
      method: "POST",
      path: `${this.#all}:cancel`,
      body: cursor === undefined ? window : { cursor },
      sending,
    }));
  }

  /**
   * Reschedule whatever waits, is due from `from` until before `to` and matches the filters: by `shift_seconds`
   * (negative: earlier), or to `due` or `delay_seconds` from now, with `window_seconds` spread over so much behind it.
   * Each moves once, although it may stay in the window: a repeat with the same arguments moves nothing again, and
   * tells what was moved before; with another `idempotencyKey` it is another request.
   */
  async rescheduleWindow(
    window: Omit<WindowRescheduleRequest, "cursor">,
    sending: Keyed = {},
  ): Promise<RescheduleItem[]> {
    const { idempotencyKey: _, ...further } = sending;
    return allItems(this.perform, (cursor) => ({
      method: "POST",
      path: `${this.#all}:reschedule`,
      body: cursor === undefined ? window : { cursor },
      recognised: true,
      sending: cursor === undefined ? sending : further,
    }));
  }

  /**
   * Call a schedule at another instant instead, under another id, which is in the answer; repeated with the same
   * arguments, it answers the same one. Conflict: in-flight, already-finished, in-doubt (it may have been called and is
   * called again), or rescheduled (with other arguments; `problem.rescheduled_to` is called instead).
   */
  async reschedule(scheduleId: string, change: RescheduleRequest, sending?: Keyed & Matching): Promise<TaggedSchedule> {
    return this.#one({
      method: "POST",
      path: `${this.#id(scheduleId)}:reschedule`,
      body: change,
      keyed: true,
      sending,
    });
  }

  /**
   * Change what waits: null takes a label, a retry policy, a time-out or a bound away, and what is left out stays. The
   * answer is its successor. Conflict: as `reschedule`.
   */
  async update(scheduleId: string, changes: UpdateRequest, sending?: Keyed & Matching): Promise<TaggedSchedule> {
    return this.#one({ method: "PATCH", path: this.#id(scheduleId), body: changes, keyed: true, sending });
  }

  /**
   * Call a waiting schedule now instead of at its due, once, however often it is asked for. The answer is its
   * successor. Conflict: as `reschedule`.
   */
  async run(scheduleId: string, sending?: Keyed & Matching): Promise<TaggedSchedule> {
    return this.#one({ method: "POST", path: `${this.#id(scheduleId)}:run`, keyed: true, sending });
  }

  /**
   * The signed request that a call of it would make now, with credentials masked. Nothing is sent. Conflict:
   * rescheduled (`problem.rescheduled_to` is called instead).
   */
  async preview(scheduleId: string, sending?: Sending): Promise<SentCallback> {
    return this.perform({ method: "POST", path: `${this.#id(scheduleId)}:preview`, sending });
  }

  /**
   * Call again, under the same id, a schedule that was delivered, skipped or has failed. Conflict: already-open,
   * cancelled.
   */
  async redeliver(scheduleId: string, sending?: Keyed): Promise<TaggedSchedule> {
    return this.#one({ method: "POST", path: `${this.#id(scheduleId)}:redeliver`, keyed: true, sending });
  }

  /** Every recorded attempt so far, in order. */
  async attempts(scheduleId: string, sending?: Sending): Promise<Attempt[]> {
    const operation = { method: "GET", path: `${this.#id(scheduleId)}/attempts`, sending } as const;
    return itemsOf(this.perform<Page<Attempt>>(operation));
  }

  /** What became of it, step by step, and why it was late. */
  async explain(scheduleId: string, sending?: Sending): Promise<Story> {
    return this.perform({ method: "GET", path: `${this.#id(scheduleId)}:explain`, sending });
  }

  /** By due, from `from` (now) until before `to` (24 hours later), page by page. */
  list(query: ListSchedulesQuery = {}, sending?: Sending): Pages<Schedule> {
    return new Pages(this.perform, { method: "GET", path: this.#all, query: { ...query }, sending });
  }

  /** How many are due from `from` (now) until before `to` (24 hours later), with as many requests as that takes. */
  async count(query: Omit<CountSchedulesQuery, "cursor"> = {}, sending?: Sending): Promise<number> {
    const operation = { method: "GET", path: `${this.#all}:count`, sending } as const;
    let found: Count = await this.perform<Count>({ ...operation, query: { ...query } });
    while (found.next_cursor !== null) {
      found = await this.perform<Count>({ ...operation, query: { cursor: found.next_cursor } });
    }
    return found.count;
  }

  #one(operation: Operation<TaggedSchedule>): Promise<TaggedSchedule> {
    return this.perform({ ...operation, tagged: true });
  }

  get #all(): string {
    return path`/v1/clients/${this.clientId}/schedules`;
  }

  #id(scheduleId: string): string {
    return path`/v1/clients/${this.clientId}/schedules/${scheduleId}`;
  }

  #byKey(key: string): string {
    return path`/v1/clients/${this.clientId}/schedules/by-key/${key}`;
  }
}
