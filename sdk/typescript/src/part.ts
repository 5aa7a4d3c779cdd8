// What the parts of a client's scope share.

import type { Perform } from "./operation.js";

/** A part of one client's scope. */
export class Part {
  /** The client that it is about. */
  readonly clientId: string;
  protected readonly perform: Perform;

  constructor(perform: Perform, clientId: string) {
    this.perform = perform;
    this.clientId = clientId;
  }
}
