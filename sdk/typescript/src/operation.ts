// The API's operations as values: what to send, and how it may be repeated.

/** What a query may hold. Undefined values are left out, lists are repeated, Dates are written as RFC 3339. */
export type Query = Readonly<Record<string, unknown>>;

/** Of every method: `signal` ends it, also between repeats. */
export interface Sending {
  signal?: AbortSignal;
}

/**
 * Of methods whose request is sent under an idempotency key: the caller's, under which the same arguments take effect
 * once within 24 hours, also across a restart of the program; left out: a generated one, for repeats of this call.
 */
export interface Keyed extends Sending {
  idempotencyKey?: string;
}

/** `ifMatch`: the `etag` of a schedule that was seen before; otherwise PreconditionFailed. */
export interface Matching extends Sending {
  ifMatch?: string;
}

/** `revision`: only if what is changed is still at this one; otherwise PreconditionFailed. */
export interface AtRevision extends Sending {
  revision?: number;
}

/** `absent`: only if there is none; otherwise PreconditionFailed. */
export interface Absent {
  absent?: boolean;
}

/**
 * One request. `also`: statuses from 400 up that are answers, not errors. `keyed`: sent under an idempotency key, the
 * given one or a generated one. `probe`: the answer must be of now, so it is never repeated. `recognised`: the API
 * recognises a repeat without a key. `tagged`: the answer gets the `etag` of its header.
 */
export interface Operation<T> {
  readonly method: "GET" | "PUT" | "POST" | "PATCH" | "DELETE";
  readonly path: string;
  readonly query?: Query | undefined;
  readonly body?: unknown;
  readonly sending?: (Keyed & Matching & AtRevision & Absent) | undefined;
  readonly also?: readonly number[];
  readonly timeoutSeconds?: number;
  readonly keyed?: boolean;
  readonly probe?: boolean;
  readonly recognised?: boolean;
  readonly tagged?: boolean;
  /** Names the type of the answer; never set. */
  readonly answer?: T;
}

/** Sends one operation, repeated where that is safe. */
export type Perform = <T>(operation: Operation<T>) => Promise<T>;

const IDEMPOTENT: readonly string[] = ["GET", "PUT", "DELETE"];

/** Whether sending it twice does no more than sending it once. */
export function isRepeatable(operation: Operation<unknown>): boolean {
  const same = operation.keyed || operation.recognised || IDEMPOTENT.includes(operation.method);
  return Boolean(same) && !operation.probe;
}

/** A path of these parts, the names among them escaped: path`/v1/clients/${clientId}`. */
export function path(fixed: TemplateStringsArray, ...names: readonly string[]): string {
  return fixed.map((text, position) => text + (position < names.length ? segment(names[position]) : "")).join("");
}

function segment(name: string | undefined): string {
  if (name === undefined || name === "") {
    throw new TypeError("an id or name can't be empty: is a variable not set?");
  }
  if (name === "." || name === "..") {
    throw new TypeError(`a URL can't name ${name}: it would reach what is above`);
  }
  return encodeURIComponent(name);
}

/** The query with its question mark; empty if nothing is in it. */
export function queryText(query: Query): string {
  const pairs = Object.entries(query).flatMap(([name, value]) =>
    (Array.isArray(value) ? value : [value])
      .filter((one) => one !== undefined && one !== null)
      .map((one) => `${name}=${encodeURIComponent(one instanceof Date ? one.toISOString() : String(one))}`),
  );
  return pairs.length > 0 ? `?${pairs.join("&")}` : "";
}

/** The headers of a change that is made of what was seen only. */
export function preconditions(sending: Matching & AtRevision & Absent): Record<string, string> {
  const tag = sending.ifMatch ?? sending.revision;
  return {
    ...(tag === undefined ? {} : { "If-Match": `"${tag}"` }),
    ...(sending.absent ? { "If-None-Match": "*" } : {}),
  };
}
