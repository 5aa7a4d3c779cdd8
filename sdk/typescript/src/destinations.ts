// A client's destinations and subscriptions. Changes are for administrators and keys of scope `manage`.

import { type Absent, type AtRevision, path, type Sending } from "./operation.js";
import { itemsOf } from "./pages.js";
import { Part } from "./part.js";
import type {
  DeleteDestinationQuery,
  Destination,
  NewDestination,
  NewSubscription,
  Page,
  Subscription,
} from "./types.js";

/** A client's destinations: where calls go, said once under a name. */
export class Destinations extends Part {
  /**
   * Create a destination, or replace it as a whole: secrets must be sent again. A paused one stays paused. Refused:
   * too-many-destinations, destinations-too-large.
   */
  async put(name: string, destination: NewDestination, sending?: AtRevision & Absent): Promise<Destination> {
    return this.perform({ method: "PUT", path: this.#name(name), body: destination, sending });
  }

  async get(name: string, sending?: Sending): Promise<Destination> {
    return this.perform({ method: "GET", path: this.#name(name), sending });
  }

  /** By name. */
  async list(sending?: Sending): Promise<Destination[]> {
    const url = path`/v1/clients/${this.clientId}/destinations`;
    return itemsOf(this.perform<Page<Destination>>({ method: "GET", path: url, sending }));
  }

  /** Hold its calls until it is resumed. */
  async pause(name: string, sending?: AtRevision): Promise<Destination> {
    return this.perform({ method: "POST", path: `${this.#name(name)}:pause`, sending });
  }

  async resume(name: string, sending?: AtRevision): Promise<Destination> {
    return this.perform({ method: "POST", path: `${this.#name(name)}:resume`, sending });
  }

  /**
   * Delete one that no cron, subscription or waiting schedule names; `force`: also one that is named, whose calls fail
   * then. Conflict: destination-in-use.
   */
  async delete(name: string, query: DeleteDestinationQuery = {}, sending?: AtRevision): Promise<void> {
    return this.perform({ method: "DELETE", path: this.#name(name), query: { ...query }, sending });
  }

  #name(name: string): string {
    return path`/v1/clients/${this.clientId}/destinations/${name}`;
  }
}

/** A client's subscriptions: which events are sent where, as notices. */
export class Subscriptions extends Part {
  /** Create a subscription, or replace it as a whole. Refused: too-many-subscriptions. */
  async put(name: string, subscription: NewSubscription, sending?: AtRevision & Absent): Promise<Subscription> {
    return this.perform({ method: "PUT", path: this.#name(name), body: subscription, sending });
  }

  async get(name: string, sending?: Sending): Promise<Subscription> {
    return this.perform({ method: "GET", path: this.#name(name), sending });
  }

  /** By name. */
  async list(sending?: Sending): Promise<Subscription[]> {
    const url = path`/v1/clients/${this.clientId}/subscriptions`;
    return itemsOf(this.perform<Page<Subscription>>({ method: "GET", path: url, sending }));
  }

  /** What was not sent yet is not sent any more. */
  async delete(name: string, sending?: AtRevision): Promise<void> {
    return this.perform({ method: "DELETE", path: this.#name(name), sending });
  }

  #name(name: string): string {
    return path`/v1/clients/${this.clientId}/subscriptions/${name}`;
  }
}
