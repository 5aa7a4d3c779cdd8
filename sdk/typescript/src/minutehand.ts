// The entry point: operations of the whole cluster, and the scopes of single clients.

import { ClientScope } from "./client-scope.js";
import { type Absent, type AtRevision, path, type Perform, type Sending } from "./operation.js";
import { itemsOf, Pages } from "./pages.js";
import { type Runtime, systemRuntime } from "./retries.js";
import { type Fetch, Sender } from "./sender.js";
import type {
  AdminKey,
  AuditEntry,
  Client,
  ClientRequest,
  Cluster,
  ClusterBacklog,
  CronPreview,
  DrainingNode,
  DrainNodeQuery,
  Forecast,
  GetClusterBacklogQuery,
  GetClusterForecastQuery,
  Health,
  LatestAudits,
  ListAuditLogQuery,
  ListLatestAuditsQuery,
  ListReconciliationsUnderWayQuery,
  NewAdminKey,
  NewClient,
  OverdueRate,
  Page,
  PreviewRequest,
  RecentCalls,
  ReconciliationsUnderWay,
} from "./types.js";

/**
 * `timeoutSeconds` (15) bounds one request. Repeats are at most `retries` (4), and none begins later than
 * `retryDeadlineSeconds` (60) after the first request; 0 disables them. `fetch` and `runtime` take the place of the
 * platform's.
 */
export interface MinutehandOptions {
  timeoutSeconds?: number;
  retries?: number;
  retryDeadlineSeconds?: number;
  fetch?: Fetch;
  runtime?: Runtime;
}

/**
 * One API with one key.
 *
 *     const api = new Minutehand("http://127.0.0.1:8080", key);
 *     const expire = { url: "https://shop.example/hooks/expire", json: { order: 17 } };
 *     const schedule = await api.client("shop").schedules.create(expire, { delay_seconds: 90 });
 *
 * A client's key gives access to that client only; `clients`, the keys and signing secrets of clients, `cluster()`,
 * `nodes` and `auditLog()` need an administrator's key.
 *
 * Reads, PUT and DELETE, and all that is sent under an idempotency key (creates, changes and redeliveries of schedules,
 * `crons.trigger`, `reconciliations.create`) are safe to repeat. They are sent again, under the same key, when there
 * was no answer, and after 429 and 503, with growing pauses, jitter and Retry-After. Everything else, and `health()`,
 * is sent once, unless it was answered 429: then nothing was done.
 */
export class Minutehand {
  readonly clients: Clients;
  readonly nodes: Nodes;
  readonly adminKeys: AdminKeys;
  readonly #perform: Perform;
  readonly #runtime: Runtime;

  /** Throws TypeError for what can't be the address of an API, or a key. */
  constructor(url: string, key: string, options: MinutehandOptions = {}) {
    const limits = { retries: options.retries ?? 4, deadlineSeconds: options.retryDeadlineSeconds ?? 60 };
    this.#runtime = options.runtime ?? systemRuntime;
    const fetch = options.fetch ?? ((address, init) => globalThis.fetch(address, init));
    const sender = new Sender(url, key, options.timeoutSeconds ?? 15, limits, fetch, this.#runtime);
    this.#perform = (operation) => sender.perform(operation);
    this.clients = new Clients(this.#perform);
    this.nodes = new Nodes(this.#perform);
    this.adminKeys = new AdminKeys(this.#perform);
  }

  /** The scope of one client. Sends nothing. */
  client(clientId: string): ClientScope {
    return new ClientScope(this.#perform, clientId, this.#runtime);
  }

  /** Whether the API process is ready. */
  async health(sending?: Sending): Promise<Health> {
    return this.#perform({ method: "GET", path: "/readyz", also: [503], probe: true, sending });
  }

  /** The nodes, which of them own the pollers, and guarantees against capacity. For administrators. */
  async cluster(sending?: Sending): Promise<Cluster> {
    return this.#perform({ method: "GET", path: "/v1/cluster", sending });
  }

  /** What nodes called within the last minute: how many a second, how late, for whom. For administrators. */
  async recentCalls(sending?: Sending): Promise<RecentCalls> {
    return this.#perform({ method: "GET", path: "/v1/cluster/calls", sending });
  }

  /**
   * What each minute is to call of all clients from `from` (now) until before `to` (24 hours later), 31 days at most.
   * For administrators.
   */
  async forecast(query: GetClusterForecastQuery = {}, sending?: Sending): Promise<Forecast> {
    return this.#perform({ method: "GET", path: "/v1/cluster/forecast", query: { ...query }, sending });
  }

  /** What is overdue of all clients, and the clients that have most of it (20). For administrators. */
  async backlog(query: GetClusterBacklogQuery = {}, sending?: Sending): Promise<ClusterBacklog> {
    return this.#perform({ method: "GET", path: "/v1/cluster/backlog", query: { ...query }, sending });
  }

  /** The reconciliations of all clients that run, the oldest first (20). For administrators. */
  async reconciliationsUnderWay(
    query: ListReconciliationsUnderWayQuery = {},
    sending?: Sending,
  ): Promise<ReconciliationsUnderWay> {
    return this.#perform({ method: "GET", path: "/v1/cluster/reconciliations", query: { ...query }, sending });
  }

  /** The newest audit of each client's books, those with most findings first (20). For administrators. */
  async latestAudits(query: ListLatestAuditsQuery = {}, sending?: Sending): Promise<LatestAudits> {
    return this.#perform({ method: "GET", path: "/v1/cluster/audits", query: { ...query }, sending });
  }

  /** How many overdue calls of all clients are made a second. For administrators. */
  async overdueRate(sending?: Sending): Promise<OverdueRate> {
    return this.#perform({ method: "GET", path: OVERDUE_RATE, sending });
  }

  /**
   * Limit how many calls a second are made, over all nodes and clients, of those that are more than a minute late. For
   * administrators.
   */
  async setOverdueRate(perSecond: number, sending?: Sending): Promise<OverdueRate> {
    return this.#perform({ method: "PUT", path: OVERDUE_RATE, body: { overdue_per_second: perSecond }, sending });
  }

  /** Let overdue calls be made as fast as limits permit. For administrators. */
  async removeOverdueRate(sending?: Sending): Promise<void> {
    return this.#perform({ method: "DELETE", path: OVERDUE_RATE, sending });
  }

  /**
   * What administrators did, and clients about themselves, newest first, page by page, from `from` (24 hours before
   * `to`; at most 31 days) until before `to` (now). For administrators.
   */
  auditLog(query: ListAuditLogQuery = {}, sending?: Sending): Pages<AuditEntry> {
    return new Pages(this.#perform, { method: "GET", path: "/v1/audit-log", query: { ...query }, sending });
  }

  /** The first `count` (5, at most 100) fires of a rule from `from` (now) on. For any key. */
  async previewCron(
    expression: string,
    options: Omit<PreviewRequest, "expression">,
    sending?: Sending,
  ): Promise<CronPreview> {
    return this.#perform({ method: "POST", path: "/v1/crons:preview", body: { expression, ...options }, sending });
  }
}

const OVERDUE_RATE = "/v1/cluster/overdue-rate";

/** The cluster's nodes, for administrators. */
export class Nodes {
  readonly #perform: Perform;

  constructor(perform: Perform) {
    this.#perform = perform;
  }

  /**
   * Have a node hand over all its pollers; it stays a member, draining, until its process stops. Conflict: last-node,
   * where no other node takes pollers, unless `force`: then no calls are made.
   */
  async drain(nodeId: string, query: DrainNodeQuery = {}, sending?: Sending): Promise<DrainingNode> {
    const url = path`/v1/cluster/nodes/${nodeId}:drain`;
    return this.#perform({ method: "POST", path: url, query: { ...query }, sending });
  }

  /** Have a draining node take its share of pollers again. Refused while its process is stopping. */
  async undrain(nodeId: string, sending?: Sending): Promise<DrainingNode> {
    return this.#perform({ method: "POST", path: path`/v1/cluster/nodes/${nodeId}:undrain`, sending });
  }
}

/** Administrators' own keys, made and revoked by the configured administrator only. */
export class AdminKeys {
  readonly #perform: Perform;

  constructor(perform: Perform) {
    this.#perform = perform;
  }

  /** Make a key for the administrator of this name; it is shown this once. */
  async create(name: string, sending?: Sending): Promise<NewAdminKey> {
    return this.#perform({ method: "POST", path: "/v1/admin-keys", body: { name }, sending });
  }

  /** Revoked ones included. */
  async list(sending?: Sending): Promise<AdminKey[]> {
    return itemsOf(this.#perform<Page<AdminKey>>({ method: "GET", path: "/v1/admin-keys", sending }));
  }

  async revoke(keyId: string, sending?: Sending): Promise<void> {
    return this.#perform({ method: "DELETE", path: path`/v1/admin-keys/${keyId}`, sending });
  }
}

/** The cluster's clients, for administrators. */
export class Clients {
  readonly #perform: Perform;

  constructor(perform: Perform) {
    this.#perform = perform;
  }

  /**
   * Create a client, or replace its quota and settings (left out: the defaults; `stored_settings`: no change). A new
   * one has a `signing_secret`, which is shown this once.
   */
  async register(
    clientId: string,
    client: ClientRequest,
    sending?: AtRevision & Absent,
  ): Promise<Client & Partial<Pick<NewClient, "signing_secret">>> {
    return this.#perform({ method: "PUT", path: path`/v1/clients/${clientId}`, body: client, sending });
  }

  async get(clientId: string, sending?: Sending): Promise<Client> {
    return this.#perform({ method: "GET", path: path`/v1/clients/${clientId}`, sending });
  }

  async list(sending?: Sending): Promise<Client[]> {
    return itemsOf(this.#perform<Page<Client>>({ method: "GET", path: "/v1/clients", sending }));
  }

  /** Hold the client's calls and refuse its creates. */
  async suspend(clientId: string, sending?: AtRevision): Promise<Client> {
    return this.#perform({ method: "POST", path: path`/v1/clients/${clientId}:suspend`, sending });
  }

  async resume(clientId: string, sending?: AtRevision): Promise<Client> {
    return this.#perform({ method: "POST", path: path`/v1/clients/${clientId}:resume`, sending });
  }

  /** Only suspended clients can be deleted. */
  async delete(clientId: string, sending?: AtRevision): Promise<void> {
    return this.#perform({ method: "DELETE", path: path`/v1/clients/${clientId}`, sending });
  }
}
