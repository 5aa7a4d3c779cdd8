// Verify a callback in one line.
//
//     const callback = await verify(body, headers, secret);
//
// Callbacks are signed as in Standard Webhooks (https://www.standardwebhooks.com): the header `webhook-signature`
// holds, for every active secret (`whsec_…`), `v1,` and the base64 of HMAC-SHA256 over
// `webhook-id`.`webhook-timestamp`.body, and for every key pair `v1a,` and the base64 of an Ed25519 signature of the
// same, which is checked by the pair's public key (`whpk_…`). `body` must be the bytes as received, before any parsing.
//
// Delivery is at least once: the same callback may come again, with the same `webhookId`. Remember the ids you have
// handled.

import { type Judge, judgeOf } from "./signatures.js";

export {
  AcknowledgementError,
  askForTime,
  callAt,
  NOT_AGAIN,
  sayDone,
  sayFailed,
  StaleWordError,
  STOP_CRON,
  type SayOptions,
} from "./answers.js";

/** The callback can't be trusted. Answer 401 and do nothing else. */
export class VerificationError extends Error {
  override get name(): string {
    return this.constructor.name;
  }
}

/** `webhook-id`, `webhook-timestamp` or `webhook-signature` is missing: no callback, or a proxy removed it. */
export class MissingHeaderError extends VerificationError {}

/** `webhook-timestamp` is not a number of seconds. */
export class MalformedHeaderError extends VerificationError {}

/** Signed too long ago (a replay, or this machine's clock is wrong), or in the future. */
export class TimestampError extends VerificationError {}

/** No signature matches: the secret is another one, or the body is not what was signed. */
export class BadSignatureError extends VerificationError {}

/**
 * The content of a verified callback's headers.
 *
 * `webhookId` (the schedule's id, the same for all attempts), `timestamp` (Unix seconds) and the body are covered by
 * the signature. The rest is as received, and only as trustworthy as the connection; undefined where the header is
 * absent. `due` is RFC 3339, the nominal instant. `attempt` counts from 1. `fence` never decreases for one schedule
 * while its sender is legitimate: refuse a lower one than you have seen. `redelivery`: this call may have been made
 * before. `trial`: a trial call, which belongs to no schedule. `key`: your own name for the schedule. `ackUrl`: where
 * to say later what became of the call, if it is answered 202.
 */
export interface VerifiedCallback {
  webhookId: string;
  timestamp: number;
  clientId: string | undefined;
  cronId: string | undefined;
  due: string | undefined;
  attempt: number | undefined;
  fence: bigint | undefined;
  redelivery: boolean;
  trial: boolean;
  key: string | undefined;
  ackUrl: string | undefined;
}

/** Header names, in any case, and values: a fetch Request's, or those of Node's IncomingMessage. */
export type CallbackHeaders =
  | Iterable<readonly [string, string]>
  | Readonly<Record<string, string | readonly string[] | undefined>>;

/** `toleranceSeconds` is 300, and `now` (Unix seconds) the system's time, unless given. */
export interface VerifyOptions {
  toleranceSeconds?: number;
  now?: number;
}

/** Bounds the work that a hostile header can cause. */
const MAX_SIGNATURES = 32;

/**
 * Check signature and age of a callback.
 *
 * `body`: the bytes as received; text is taken as UTF-8. `secret` is the client's `whsec_…` or `whpk_…`, or several
 * while they are rotated. Rejects with a VerificationError that says what is wrong, and with a TypeError when a secret
 * is not one (empty and short keys included: anybody could sign with them), or an option is no number in its range.
 */
export async function verify(
  body: Uint8Array | ArrayBuffer | string,
  headers: CallbackHeaders,
  secret: string | readonly string[],
  options: VerifyOptions = {},
): Promise<VerifiedCallback> {
  const { toleranceSeconds = 300, now = Date.now() / 1000 } = options;
  if (!(toleranceSeconds >= 0)) {
    throw new TypeError(`toleranceSeconds must be a number of at least 0, not ${toleranceSeconds}`);
  }
  if (Number.isNaN(now)) {
    throw new TypeError("now must be a number of seconds, not NaN");
  }
  const judges = await Promise.all((typeof secret === "string" ? [secret] : secret).map(judgeOf));
  if (judges.length === 0) {
    throw new TypeError("give at least one signing secret");
  }
  const found = lowered(headers);
  const webhookId = required(found, "webhook-id");
  const timestampText = required(found, "webhook-timestamp");
  const signatures = required(found, "webhook-signature");
  const timestamp = whole(timestampText);
  if (timestamp === undefined) {
    throw new MalformedHeaderError("webhook-timestamp is not a number of seconds");
  }
  const age = now - Number(timestamp);
  if (age > toleranceSeconds) {
    throw new TimestampError(
      `the callback was signed ${age.toFixed()} s ago; at most ${toleranceSeconds} s are tolerated`,
    );
  }
  if (age < -toleranceSeconds) {
    throw new TimestampError(`the callback was signed ${(-age).toFixed()} s in the future; check this machine's clock`);
  }
  const signed = joined(new TextEncoder().encode(`${webhookId}.${timestampText}.`), body);
  if (!(await matches(signed, judges, signatures))) {
    throw new BadSignatureError("no signature matches; check the secret, and pass the raw bytes of the body");
  }
  return {
    webhookId,
    timestamp: Number(timestamp),
    clientId: found.get("minutehand-client"),
    cronId: found.get("minutehand-cron-id"),
    due: found.get("minutehand-due"),
    attempt: numberOf(whole(found.get("minutehand-attempt") ?? "")),
    fence: whole(found.get("minutehand-fence") ?? ""),
    redelivery: found.get("minutehand-redelivery")?.toLowerCase() === "true",
    trial: found.get("minutehand-trial")?.toLowerCase() === "true",
    key: found.get("minutehand-key"),
    ackUrl: found.get("minutehand-ack-url"),
  };
}

/** Tries every key, whether or not one has matched. */
async function matches(
  signed: Uint8Array<ArrayBuffer>,
  judges: readonly Judge[],
  signatures: string,
): Promise<boolean> {
  const given = signatures
    .split(" ")
    .slice(0, MAX_SIGNATURES)
    .map((item) => {
      const comma = item.indexOf(",");
      return comma < 0 ? { version: item, signature: "" } : split(item, comma);
    });
  const results = await Promise.all(
    judges.map((judge) =>
      judge.matches(
        signed,
        given.filter((one) => one.version === judge.version).map((one) => one.signature),
      ),
    ),
  );
  return results.includes(true);
}

function split(item: string, comma: number): { version: string; signature: string } {
  return { version: item.slice(0, comma), signature: item.slice(comma + 1) };
}

function lowered(headers: CallbackHeaders): Map<string, string> {
  const pairs = Symbol.iterator in headers ? [...headers] : Object.entries(headers);
  const found = new Map<string, string>();
  for (const [name, value] of pairs) {
    if (value !== undefined) {
      found.set(name.toLowerCase(), typeof value === "string" ? value : value.join(", "));
    }
  }
  return found;
}

function required(headers: ReadonlyMap<string, string>, name: string): string {
  const value = headers.get(name);
  if (!value) {
    throw new MissingHeaderError(`the header ${name} is missing`);
  }
  return value;
}

function joined(head: Uint8Array, body: Uint8Array | ArrayBuffer | string): Uint8Array<ArrayBuffer> {
  const tail = typeof body === "string" ? new TextEncoder().encode(body) : new Uint8Array(body);
  const all = new Uint8Array(head.length + tail.length);
  all.set(head);
  all.set(tail, head.length);
  return all;
}

/** A non-negative decimal number as Minutehand writes it, else undefined. */
function whole(text: string): bigint | undefined {
  return /^[0-9]{1,19}$/.test(text) ? BigInt(text) : undefined;
}

function numberOf(value: bigint | undefined): number | undefined {
  return value === undefined ? undefined : Number(value);
}
