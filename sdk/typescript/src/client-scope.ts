// The scope of one client.

import { Crons } from "./crons.js";
import { DeadLetters } from "./dead-letters.js";
import { Destinations, Subscriptions } from "./destinations.js";
import { Feed, type Following } from "./events.js";
import { Keys, SigningSecrets } from "./keys.js";
import { type AtRevision, path, type Perform, type Sending } from "./operation.js";
import { itemsOf, Pages } from "./pages.js";
import { Reconciliations } from "./reconciliations.js";
import type { Runtime } from "./retries.js";
import { Schedules } from "./schedules.js";
import type {
  Audit,
  AuditEntry,
  Backlog,
  Callback,
  Client,
  DayUsage,
  Exchange,
  Forecast,
  GetBalanceQuery,
  GetForecastQuery,
  GetUsageQuery,
  ListAuditsQuery,
  ListClientAuditLogQuery,
  MinuteBalance,
  OwnSettings,
  Page,
  Poller,
  TrialCallRequest,
} from "./types.js";

/** More than the largest time-out that a client may have. */
const TRIAL_CALL_TIMEOUT_SECONDS = 75;

/** The scope of one client: its schedules, crons, dead letters, keys. */
export class ClientScope {
  readonly clientId: string;
  readonly schedules: Schedules;
  readonly deadLetters: DeadLetters;
  readonly crons: Crons;
  readonly destinations: Destinations;
  readonly subscriptions: Subscriptions;
  readonly reconciliations: Reconciliations;
  readonly keys: Keys;
  readonly signingSecrets: SigningSecrets;
  readonly #perform: Perform;
  readonly #runtime: Runtime;

  constructor(perform: Perform, clientId: string, runtime: Runtime) {
    this.clientId = clientId;
    this.schedules = new Schedules(perform, clientId);
    this.deadLetters = new DeadLetters(perform, clientId);
    this.crons = new Crons(perform, clientId);
    this.destinations = new Destinations(perform, clientId);
    this.subscriptions = new Subscriptions(perform, clientId);
    this.reconciliations = new Reconciliations(perform, clientId, runtime);
    this.keys = new Keys(perform, clientId);
    this.signingSecrets = new SigningSecrets(perform, clientId);
    this.#perform = perform;
    this.#runtime = runtime;
  }

  /** The client itself: quota, limits, settings, state. For administrators and keys of scope `manage`. */
  async get(sending?: Sending): Promise<Client> {
    return this.#perform({ method: "GET", path: this.#path, sending });
  }

  /** Change the settings that are the client's own; what is left out stays. Each is replaced as a whole. */
  async changeSettings(settings: OwnSettings, sending?: AtRevision): Promise<Client> {
    return this.#perform({ method: "PATCH", path: `${this.#path}/settings`, body: settings, sending });
  }

  /** Hold the client's calls and crons; creates are accepted. A suspension is independent of it. */
  async pause(sending?: AtRevision): Promise<Client> {
    return this.#perform({ method: "POST", path: `${this.#path}:pause`, sending });
  }

  /**
   * Let calls and crons go on. What fell due meanwhile is called or skipped, by the client's late policy.
   */
  async unpause(sending?: AtRevision): Promise<Client> {
    return this.#perform({ method: "POST", path: `${this.#path}:unpause`, sending });
  }

  /**
   * What was done to the client, by itself or by administrators, newest first, page by page, from `from` (24 hours
   * before `to`; at most 31 days) until before `to` (now).
   */
  auditLog(query: ListClientAuditLogQuery = {}, sending?: Sending): Pages<AuditEntry> {
    return this.#pages("audit-log", query, sending);
  }

  /** The client's pollers: owner, how far each is settled, what is open since. */
  async pollers(sending?: Sending): Promise<Poller[]> {
    return itemsOf(this.#perform<Page<Poller>>({ method: "GET", path: `${this.#path}/pollers`, sending }));
  }

  /**
   * Have one signed trial call sent now, as the client's schedules would be, and get the exchange. Nothing is stored;
   * the receiver can tell it by `Minutehand-Trial: true`. Whatever the receiver does is a result, not an error.
   */
  async trialCall(
    callback: Callback,
    options: Omit<TrialCallRequest, "callback"> = {},
    sending?: Sending,
  ): Promise<Exchange> {
    return this.#perform({
      method: "POST",
      path: `${this.#path}/callbacks:try`,
      body: { callback, ...options },
      timeoutSeconds: TRIAL_CALL_TIMEOUT_SECONDS,
      sending,
    });
  }

  /**
   * Usage for each day by due, as last counted, from `from` (a week ago) until before `to` (tomorrow), 31 days at most.
   * Both are days, such as 2026-11-21. Days not yet counted are left out.
   */
  async usage(query: GetUsageQuery = {}, sending?: Sending): Promise<DayUsage[]> {
    const operation = { method: "GET", path: `${this.#path}/usage`, query: { ...query }, sending } as const;
    return itemsOf(this.#perform<Page<DayUsage>>(operation));
  }

  /** What is overdue, by age, and why. */
  async backlog(sending?: Sending): Promise<Backlog> {
    return this.#perform({ method: "GET", path: `${this.#path}/backlog`, sending });
  }

  /** What each minute is to call from `from` (now) until before `to` (24 hours later), 31 days at most. */
  async forecast(query: GetForecastQuery = {}, sending?: Sending): Promise<Forecast> {
    return this.#perform({ method: "GET", path: `${this.#path}/forecast`, query: { ...query }, sending });
  }

  /**
   * What became of the client's schedules, to iterate over: from a cursor on (`after`; "earliest": all that is kept, a
   * day at least), from an instant on (`since`), or from now on. It waits for what comes, and goes on by itself when
   * the API does not answer for a while; with `follow: false` it ends with the last event that there is. An event may
   * come again under its id. `pollers`: for clients with more than 64 of them, such as `64-127`.
   */
  events(following: Following = {}, sending?: Sending): Feed {
    return new Feed(this.#perform, `${this.#path}/events`, following, this.#runtime, sending);
  }

  /** The results of audits of the client's books, newest first, page by page. */
  audits(query: ListAuditsQuery = {}, sending?: Sending): Pages<Audit> {
    return this.#pages("audits", query, sending);
  }

  /**
   * The books minute by minute, page by page, from `from` (an hour ago) until before `to` (now), 24 hours at most.
   * Minutes without schedules are left out.
   */
  balance(query: GetBalanceQuery = {}, sending?: Sending): Pages<MinuteBalance> {
    return this.#pages("balance", query, sending);
  }

  #pages<T>(name: string, query: object, sending?: Sending): Pages<T> {
    return new Pages(this.#perform, { method: "GET", path: `${this.#path}/${name}`, query: { ...query }, sending });
  }

  get #path(): string {
    return path`/v1/clients/${this.clientId}`;
  }
}
