// A client's reconciliations: create, look at, wait for.

import { type Keyed, path, type Perform, type Sending } from "./operation.js";
import { Pages } from "./pages.js";
import { Part } from "./part.js";
import type { Runtime } from "./retries.js";
import type {
  Action,
  ListReconciledSchedulesQuery,
  ListReconciliationsQuery,
  ReconciledSchedule,
  Reconciliation,
  ReconciliationRequest,
} from "./types.js";

const EVERY_SECONDS = 2;

/** A client's reconciliations. */
export class Reconciliations extends Part {
  readonly #runtime: Runtime;

  constructor(perform: Perform, clientId: string, runtime: Runtime) {
    super(perform, clientId);
    this.#runtime = runtime;
  }

  /**
   * Begin a reconciliation. The cluster works through the window gradually, handling each schedule that matches once;
   * `wait` for it, or `get` it later.
   */
  async create(
    action: Action,
    window: Omit<ReconciliationRequest, "action">,
    sending?: Keyed,
  ): Promise<Reconciliation> {
    return this.perform({ method: "POST", path: this.#all, body: { action, ...window }, keyed: true, sending });
  }

  async get(reconciliationId: string, sending?: Sending): Promise<Reconciliation> {
    return this.perform({ method: "GET", path: this.#id(reconciliationId), sending });
  }

  /** The newest first, page by page; they are kept 90 days. */
  list(query: ListReconciliationsQuery = {}, sending?: Sending): Pages<Reconciliation> {
    return new Pages(this.perform, { method: "GET", path: this.#all, query: { ...query }, sending });
  }

  /**
   * What it has done to each schedule so far, by due, page by page: all, or those with this outcome. One whose action
   * is report does nothing, and has none.
   */
  schedules(
    reconciliationId: string,
    query: ListReconciledSchedulesQuery = {},
    sending?: Sending,
  ): Pages<ReconciledSchedule> {
    const url = `${this.#id(reconciliationId)}/schedules`;
    return new Pages(this.perform, { method: "GET", path: url, query: { ...query }, sending });
  }

  /** Stop it where it is. Conflict: reconciliation-finished. */
  async stop(reconciliationId: string, sending?: Sending): Promise<Reconciliation> {
    return this.perform({ method: "POST", path: `${this.#id(reconciliationId)}:stop`, sending });
  }

  /** Look at it every `everySeconds` (2) until it has ended; `onProgress` is called each time. */
  async wait(
    reconciliationId: string,
    options: { everySeconds?: number; onProgress?: (found: Reconciliation) => void } = {},
    sending?: Sending,
  ): Promise<Reconciliation> {
    for (;;) {
      const found = await this.get(reconciliationId, sending);
      if (found.state !== "running") {
        return found;
      }
      options.onProgress?.(found);
      await this.#runtime.sleep(options.everySeconds ?? EVERY_SECONDS, sending?.signal);
    }
  }

  get #all(): string {
    return path`/v1/clients/${this.clientId}/reconciliations`;
  }

  #id(reconciliationId: string): string {
    return path`/v1/clients/${this.clientId}/reconciliations/${reconciliationId}`;
  }
}
