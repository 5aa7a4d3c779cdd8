// The vectors that the Python SDK judges alike, and what is TypeScript's own.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";
import * as webhooks from "minutehand/webhooks";

interface Vector {
  name: string;
  secrets: string[];
  headers: Record<string, string>;
  body: string | null;
  body_base64?: string;
  now: number;
  tolerance_seconds?: number;
  error?: "invalid" | "BadSignatureError" | "MalformedHeaderError" | "MissingHeaderError" | "TimestampError";
  verified?: Record<string, unknown>;
}

const vectors = JSON.parse(
  readFileSync(new URL("../../../webhook_vectors.json", import.meta.url), "utf8"),
) as [Vector, ...Vector[]];
const [first] = vectors;

function judged(vector: Vector): Promise<webhooks.VerifiedCallback> {
  const body = Buffer.from(vector.body ?? vector.body_base64 ?? "", vector.body === null ? "base64" : "utf8");
  const tolerance = vector.tolerance_seconds;
  const options = { now: vector.now, ...(tolerance === undefined ? {} : { toleranceSeconds: tolerance }) };
  return webhooks.verify(body, vector.headers, vector.secrets, options);
}

for (const vector of vectors) {
  test(`a callback with ${vector.name}`, async () => {
    if (vector.error !== undefined) {
      const kind = vector.error === "invalid" ? TypeError : webhooks[vector.error];
      await assert.rejects(judged(vector), (error) => error instanceof kind && error.constructor === kind);
      return;
    }
    const given = Object.entries(await judged(vector))
      .filter(([, value]) => value !== undefined && value !== false)
      .map(([name, value]) => [snake(name), typeof value === "bigint" ? String(value) : (value as unknown)]);
    assert.deepEqual(Object.fromEntries(given), vector.verified);
  });
}

function snake(name: string): string {
  return name.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
}

test("headers and bodies may be of any kind, and one secret need not be in a list", async () => {
  const { headers, now } = first;
  const body = first.body ?? "";
  const [secret] = first.secrets as [string];
  const pairs = Object.entries(headers);
  const bytes = new TextEncoder().encode(body);
  const lists = Object.fromEntries(pairs.map(([name, value]) => [name, [value]]));
  for (const [one, many] of [
    [body, new Headers(headers)],
    [bytes, new Map(pairs)],
    [bytes.buffer, pairs],
    [Buffer.concat([Buffer.from("x"), bytes]).subarray(1), lists],
  ] as const) {
    assert.equal((await webhooks.verify(one, many, secret, { now })).webhookId, headers["webhook-id"]);
  }
});

test("the time is the system's unless it is given", async () => {
  const { headers, secrets } = first;
  await assert.rejects(webhooks.verify(first.body ?? "", headers, secrets), webhooks.TimestampError);
  await assert.rejects(webhooks.verify("", headers, secrets, { now: NaN }), TypeError);
});

const ACK_URL = "https://api.example/v1/acknowledgements/abc";

/** A fetch that answers with these statuses, or fails, one after the other. */
function scripted(...answers: (Error | [number, unknown])[]) {
  const sent: { url: string; body: unknown }[] = [];
  const fetch = (url: string, init: RequestInit): Promise<Response> => {
    sent.push({ url, body: JSON.parse(String(init.body)) as unknown });
    const answer = answers.shift() ?? new Error("nothing is scripted");
    if (answer instanceof Error) return Promise.reject(answer);
    return Promise.resolve(new Response(JSON.stringify(answer[1]), { status: answer[0] }));
  };
  return { fetch, sent };
}

test("a word is said again until it is answered", async (context) => {
  context.mock.timers.enable({ apis: ["setTimeout"] });
  const { fetch, sent } = scripted(new Error("no route"), [503, {}], [200, { deadline: null }]);
  let done = false;
  const said = webhooks.sayDone(ACK_URL, { rows: 4812 }, { fetch }).then(() => (done = true));
  while (!done) {
    context.mock.timers.tick(500);
    await new Promise((resolve) => setImmediate(resolve));
  }
  await said;
  assert.deepEqual(sent, Array(3).fill({ url: ACK_URL, body: { result: "done", data: { rows: 4812 } } }));
});

test("a word about a call that awaits none is refused, and so is one that is wrong", async () => {
  const stale = webhooks.sayFailed(ACK_URL, "no disk", undefined, { fetch: scripted([409, {}]).fetch });
  await assert.rejects(stale, webhooks.StaleWordError);
  const wrong = webhooks.sayDone(ACK_URL, null, { fetch: scripted([422, {}]).fetch });
  await assert.rejects(wrong, (error) => error instanceof webhooks.AcknowledgementError && /422/.test(error.message));
  const unheard = webhooks.sayDone(ACK_URL, null, { patienceSeconds: 0, fetch: scripted([503, {}]).fetch });
  await assert.rejects(unheard, webhooks.AcknowledgementError);
  await assert.rejects(webhooks.sayDone("ftp://api.example/"), TypeError);
});

test("more time is granted until an instant", async () => {
  const { fetch, sent } = scripted([200, { deadline: "2026-11-21T09:40:00.000Z" }]);
  const until = await webhooks.askForTime(ACK_URL, 600, undefined, { fetch });
  assert.deepEqual(until, new Date("2026-11-21T09:40:00Z"));
  assert.deepEqual(sent, [{ url: ACK_URL, body: { result: "extend", within_seconds: 600 } }]);
});

test("an answer asks to be called later", () => {
  assert.deepEqual(webhooks.callAt(new Date(0)), { "Minutehand-Call-At": "1970-01-01T00:00:00.000Z" });
});
