// A client's dead letters: schedules that failed for good.

import { path, type Sending } from "./operation.js";
import { Pages } from "./pages.js";
import { Part } from "./part.js";
import type { Acknowledged, DeadLetter, LettersRequest, ListDeadLettersQuery, Redriven } from "./types.js";

/** A client's dead letters. */
export class DeadLetters extends Part {
  /** By the instant of failure, page by page; without `acknowledged`, those that nobody has acknowledged. */
  list(query: ListDeadLettersQuery = {}, sending?: Sending): Pages<DeadLetter> {
    return new Pages(this.perform, { method: "GET", path: this.#all, query: { ...query }, sending });
  }

  /**
   * Call again what failed and has not been redelivered since: `letter_ids`, or those of a window that fit the filters
   * of `list` and are not acknowledged, `limit` (100, at most 1,000) at a time; continue with the cursor of the answer
   * alone. Repeating it calls nothing twice.
   */
  async redeliver(selection: LettersRequest, sending?: Sending): Promise<Redriven> {
    return this.perform({ method: "POST", path: `${this.#all}:redeliver`, body: selection, sending });
  }

  /** Leave them out of `list` from now on; selected as for `redeliver`. Repeating it changes nothing. */
  async acknowledge(selection: LettersRequest, sending?: Sending): Promise<Acknowledged> {
    return this.perform({ method: "POST", path: `${this.#all}:acknowledge`, body: selection, sending });
  }

  get #all(): string {
    return path`/v1/clients/${this.clientId}/dead-letters`;
  }
}
