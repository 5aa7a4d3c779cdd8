// The errors that calls end with.

import type { Fault, Problem } from "./types.js";

/** The root of this package's errors, except those of `minutehand/webhooks`. */
export class MinutehandError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/**
 * There was no answer, or one that is not Minutehand's. The request may have taken effect, unless `sent` is false: no
 * connection was made. `passing`: a repeat may be answered.
 */
export class MinutehandUnreachable extends MinutehandError {
  readonly passing: boolean;
  readonly sent: boolean;

  constructor(message: string, about: { passing?: boolean; sent?: boolean; cause?: unknown } = {}) {
    super(message, { cause: about.cause });
    this.passing = about.passing ?? false;
    this.sent = about.sent ?? true;
  }
}

/**
 * The API refused. `message` is its reason with every fault; `problem` is the whole document. It is of the class of its
 * status, where there is one: `NotFound`, `Conflict` and the others.
 */
export class MinutehandApiError extends MinutehandError {
  readonly problem: Problem;
  readonly retryAfterSeconds: number | undefined;

  constructor(problem: Problem, retryAfterSeconds?: number) {
    const faults = (problem.errors ?? []).map((fault) => `${fault.pointer || "/"} ${fault.detail}`).join("; ");
    const detail = problem.detail || problem.title;
    super(faults ? `${detail}: ${faults}` : detail);
    this.problem = problem;
    this.retryAfterSeconds = retryAfterSeconds;
  }

  get status(): number {
    return this.problem.status;
  }

  /** The stable name of the refusal, such as `not-found` or `in-flight`. */
  get kind(): string {
    return this.problem.type.slice(this.problem.type.lastIndexOf("/") + 1);
  }

  /** Every fault of an invalid request. */
  get errors(): Fault[] {
    return this.problem.errors ?? [];
  }
}

/** 401: the key is missing, unknown, revoked or expired. */
export class Unauthorized extends MinutehandApiError {}

/** 403: the key is good, but not for this. */
export class Forbidden extends MinutehandApiError {}

/** 404: there is no such thing, or none that this key may see. */
export class NotFound extends MinutehandApiError {}

/** 409: what is there does not allow it; `kind` says what, such as `in-flight`. */
export class Conflict extends MinutehandApiError {}

/** 412: it was changed meanwhile, or is there already. */
export class PreconditionFailed extends MinutehandApiError {}

/** 422: `errors` has every fault. */
export class InvalidRequest extends MinutehandApiError {}

/** 429: beyond a rate or budget; `retryAfterSeconds` says how long to wait. */
export class TooManyRequests extends MinutehandApiError {}

/** 503: storage, or the API itself, can't answer now. */
export class Unavailable extends MinutehandApiError {}

const OF_STATUS: Readonly<Record<number, typeof MinutehandApiError>> = {
  401: Unauthorized,
  403: Forbidden,
  404: NotFound,
  409: Conflict,
  412: PreconditionFailed,
  422: InvalidRequest,
  429: TooManyRequests,
  503: Unavailable,
};

/** Statuses that a proxy answers while no API behind it is available. */
const A_PROXYS: readonly number[] = [429, 502, 503, 504];

/** Codes of failures before anything was sent. */
const NOT_CONNECTED: readonly string[] = [
  "EAI_AGAIN",
  "ECONNREFUSED",
  "EHOSTUNREACH",
  "ENETUNREACH",
  "ENOTFOUND",
  "UND_ERR_CONNECT_TIMEOUT",
];

/** The error for an answer that is no success. */
export function errorOf(status: number, headers: Headers, body: string): MinutehandError {
  const retryAfter = headers.get("retry-after") ?? "";
  const type = (headers.get("content-type") ?? "").split(";")[0]?.trim();
  const problem = type === "application/problem+json" ? problemIn(body) : undefined;
  if (problem !== undefined) {
    const known = OF_STATUS[status] ?? MinutehandApiError;
    return new known(problem, /^\d+$/.test(retryAfter) ? Number(retryAfter) : undefined);
  }
  const message = `the answer, HTTP status ${status}, is not Minutehand's: is the address right?`;
  return new MinutehandUnreachable(message, { passing: A_PROXYS.includes(status) });
}

/** The error for a request that got no whole answer. */
export function unreachable(address: string, cause: unknown): MinutehandUnreachable {
  const inner = cause instanceof Error && cause.cause instanceof Error ? cause.cause : cause;
  const code = inner instanceof Error && "code" in inner ? String(inner.code) : "";
  const reason = inner instanceof Error ? inner.message || code || inner.name : String(inner);
  const about = { passing: true, sent: !NOT_CONNECTED.includes(code), cause };
  return new MinutehandUnreachable(`Minutehand does not answer at ${address} (${reason})`, about);
}

function problemIn(body: string): Problem | undefined {
  try {
    const value: unknown = JSON.parse(body);
    const whole = typeof value === "object" && value !== null && "type" in value && typeof value.type === "string";
    return whole ? (value as Problem) : undefined;
  } catch {
    return undefined;
  }
}
