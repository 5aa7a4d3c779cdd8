// A client's crons: rules that make schedules.

import { type Absent, type AtRevision, type Keyed, path, type Sending } from "./operation.js";
import { allItems, Pages } from "./pages.js";
import { Part } from "./part.js";
import type {
  BackfillItem,
  BackfillRequest,
  Callback,
  Cron,
  CronChange,
  CronRun,
  ListCronsQuery,
  ListRunsQuery,
  NewCron,
  PauseManyRequest,
  PauseRequest,
  ResumeManyRequest,
  Schedule,
} from "./types.js";

/** A client's crons. */
export class Crons extends Part {
  /** Create a cron, or replace its rule and callback. Repeating it changes nothing. */
  async put(
    cronId: string,
    callback: Callback,
    options: Omit<NewCron, "callback">,
    sending?: AtRevision & Absent,
  ): Promise<Cron> {
    return this.perform({ method: "PUT", path: this.#id(cronId), body: { callback, ...options }, sending });
  }

  async get(cronId: string, sending?: Sending): Promise<Cron> {
    return this.perform({ method: "GET", path: this.#id(cronId), sending });
  }

  /** By id, page by page; deleted ones are left out. */
  list(query: ListCronsQuery = {}, sending?: Sending): Pages<Cron> {
    return new Pages(this.perform, { method: "GET", path: this.#all, query: { ...query }, sending });
  }

  /** No more fires until it is resumed. */
  async pause(cronId: string, options?: PauseRequest, sending?: AtRevision): Promise<Cron> {
    return this.perform({ method: "POST", path: `${this.#id(cronId)}:pause`, body: options, sending });
  }

  /** Continue from now; fires missed during the pause are not made up for. */
  async resume(cronId: string, sending?: AtRevision): Promise<Cron> {
    return this.perform({ method: "POST", path: `${this.#id(cronId)}:resume`, sending });
  }

  /**
   * Pause all crons with this label; those that are paused keep their note. `dry_run`: only answer which ones.
   */
  async pauseAll(selection: Omit<PauseManyRequest, "cursor">, sending?: Sending): Promise<CronChange[]> {
    return this.#changeAll("pause", selection, sending);
  }

  /** Resume all paused crons with this label; with a `note`, those that were paused with it. */
  async resumeAll(selection: Omit<ResumeManyRequest, "cursor">, sending?: Sending): Promise<CronChange[]> {
    return this.#changeAll("resume", selection, sending);
  }

  /**
   * Make the fires from `from` until before `to` (now) that were not made, once each. `dry_run`: only answer which
   * ones.
   */
  async backfill(
    cronId: string,
    window: Omit<BackfillRequest, "cursor">,
    sending?: Sending,
  ): Promise<BackfillItem[]> {
    const url = `${this.#id(cronId)}:backfill`;
    return allItems(this.perform, (cursor) => ({ method: "POST", path: url, body: { ...window, cursor }, sending }));
  }

  /** Run it once now, beside the rule. Conflict: cron-changed, where a repeat finds no run and another cron. */
  async trigger(cronId: string, sending?: Keyed): Promise<Schedule> {
    return this.perform({ method: "POST", path: `${this.#id(cronId)}:trigger`, keyed: true, sending });
  }

  /** No more fires. Its runs stay readable. */
  async delete(cronId: string, sending?: AtRevision): Promise<Cron> {
    return this.perform({ method: "DELETE", path: this.#id(cronId), sending });
  }

  /**
   * Past and planned runs by nominal instant, page by page, from `from` (a day ago) until before `to` (a day ahead), 31
   * days at most. `order` newest: runs that have a schedule, the last ones first.
   */
  runs(cronId: string, query: ListRunsQuery = {}, sending?: Sending): Pages<CronRun> {
    return new Pages(this.perform, { method: "GET", path: `${this.#id(cronId)}/runs`, query: { ...query }, sending });
  }

  async #changeAll(verb: "pause" | "resume", selection: object, sending?: Sending): Promise<CronChange[]> {
    const url = `${this.#all}:${verb}`;
    return allItems(this.perform, (cursor) => ({ method: "POST", path: url, body: { ...selection, cursor }, sending }));
  }

  get #all(): string {
    return path`/v1/clients/${this.clientId}/crons`;
  }

  #id(cronId: string): string {
    return path`/v1/clients/${this.clientId}/crons/${cronId}`;
  }
}
