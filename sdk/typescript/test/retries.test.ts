// What is sent again, when, and under which key.

import assert from "node:assert/strict";
import { test } from "node:test";
import { MinutehandUnreachable, TooManyRequests, Unavailable } from "minutehand";
import { problem, scripted } from "./scripted.js";

const CALLBACK = { url: "https://shop.example/expire" };
const MADE = { status: 201, body: { schedule_id: "1" } };
const LATER = problem(503, "overloaded");
const refused = Object.assign(new TypeError("fetch failed"), {
  cause: Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" }),
});

test("a create is sent again under the same key, with growing pauses", async () => {
  const { shop, sent, slept } = scripted([refused, LATER, problem(429, "rate-limited"), new Error("reset"), MADE]);
  await shop.schedules.create(CALLBACK);
  assert.deepEqual(new Set(sent.map((one) => one.headers["idempotency-key"])), new Set(["key-1"]));
  assert.deepEqual(slept, [0.2, 0.4, 0.8, 1.6]);
});

test("another create has another key", async () => {
  const { shop, sent } = scripted([MADE, MADE]);
  await shop.schedules.create(CALLBACK);
  await shop.schedules.create(CALLBACK);
  assert.deepEqual(sent.map((one) => one.headers["idempotency-key"]), ["key-1", "key-2"]);
});

test("half of a pause is jitter, and what the API asks for comes on top", async () => {
  const { shop, slept } = scripted([LATER, problem(503, "overloaded", {}, { "retry-after": "3" }), MADE], {
    fraction: 0,
  });
  await shop.schedules.create(CALLBACK);
  assert.deepEqual(slept, [0.1, 3.2]);
});

test("a date in Retry-After is no number of seconds", async () => {
  const later = problem(503, "overloaded", {}, { "retry-after": "Sat, 21 Nov 2026 09:30:00 GMT" });
  const { shop, slept } = scripted([later, MADE]);
  await shop.schedules.create(CALLBACK);
  assert.deepEqual(slept, [0.2]);
});

test("it is given up after so many repeats, with the last error", async () => {
  const { shop, sent } = scripted([LATER, LATER, problem(503, "unavailable")], { retries: 2 });
  await assert.rejects(shop.schedules.create(CALLBACK), (error) => {
    return error instanceof Unavailable && error.kind === "unavailable";
  });
  assert.equal(sent.length, 3);
});

test("no repeat begins later than the deadline", async () => {
  const wait = problem(429, "rate-limited", {}, { "retry-after": "50" });
  const { shop, slept } = scripted([wait, wait, MADE]);
  await assert.rejects(shop.get(), (error) => error instanceof TooManyRequests && error.retryAfterSeconds === 50);
  assert.deepEqual(slept, [50.2]);
});

test("without repeats there is no key, unless it is given", async () => {
  const { shop, sent } = scripted([MADE, LATER], { retries: 0 });
  await shop.schedules.create(CALLBACK);
  await assert.rejects(shop.schedules.create(CALLBACK, {}, { idempotencyKey: "mine" }), Unavailable);
  assert.deepEqual(sent.map((one) => one.headers["idempotency-key"]), [undefined, "mine"]);
});

test("reads, PUT and DELETE are sent again, and what the API recognises", async () => {
  const page = { body: { items: [], next_cursor: null } };
  const { shop, sent } = scripted([
    LATER, { body: {} },
    LATER, { body: {} },
    LATER, { body: {} },
    LATER, page,
  ]); // prettier-ignore
  await shop.get();
  await shop.crons.put("nightly", CALLBACK, { expression: "30 2 * * *", timezone: "UTC" });
  await shop.crons.delete("nightly");
  await shop.schedules.rescheduleWindow({ from: new Date(0), to: new Date(1), shift_seconds: 60 });
  assert.equal(sent.length, 8);
});

test("what may do something twice is sent once, unless a rate limit refused it", async () => {
  for (const [answer, count] of [
    [LATER, 1],
    [new Error("reset"), 1],
    [problem(429, "rate-limited"), 2],
  ] as const) {
    const { shop, sent } = scripted([answer, { status: 201, body: { key: "k" } }]);
    await shop.keys.create({ name: "web shop" }).catch((error: unknown) => error);
    assert.equal(sent.length, count);
  }
});

test("a probe is of now, so it is not sent again", async () => {
  const { api, sent } = scripted([refused, { body: { status: "ready" } }]);
  await assert.rejects(api.health(), MinutehandUnreachable);
  assert.equal(sent.length, 1);
});

test("an error says whether anything may have been done", async () => {
  for (const [failure, was] of [
    [refused, false],
    [new TypeError("terminated"), true],
  ] as const) {
    const { shop } = scripted([failure], { retries: 0 });
    await assert.rejects(shop.schedules.create(CALLBACK), (error) => {
      assert.ok(error instanceof MinutehandUnreachable);
      assert.deepEqual([error.passing, error.sent, error.cause], [true, was, failure]);
      assert.match(error.message, /^Minutehand does not answer at http:\/\/api\.example \(/);
      return true;
    });
  }
});

test("a proxy's refusal is passing, too", async () => {
  const { shop, sent } = scripted([{ status: 502, text: "bad gateway" }, { body: {} }]);
  await shop.get();
  assert.equal(sent.length, 2);
});

test("a request that takes too long is given up and sent again", async () => {
  let asked = 0;
  const fetch = (_: string, init: RequestInit): Promise<Response> => {
    asked += 1;
    return asked > 1
      ? Promise.resolve(Response.json({ client_id: "shop" }))
      : new Promise((_resolve, reject) => {
          init.signal?.addEventListener("abort", () => reject(init.signal?.reason as Error));
        });
  };
  // The timer of a time-out does not keep the process.
  const kept = setInterval(() => undefined, 1000);
  const { shop } = scripted([], { fetch, timeoutSeconds: 0.01 });
  assert.equal((await shop.get()).client_id, "shop");
  clearInterval(kept);
});

test("the caller's signal ends a request and a pause, with its reason", async () => {
  const stopping = new AbortController();
  stopping.abort(new Error("enough"));
  const { shop, sent } = scripted([new Error("aborted"), { body: {} }], { retries: 0 });
  await assert.rejects(shop.get({ signal: stopping.signal }), /enough/);
  assert.equal(sent.length, 1);
  const later = new AbortController();
  const paused = scripted([LATER, { body: {} }]);
  const asked = paused.shop.get({ signal: later.signal });
  later.abort(new Error("no more"));
  await assert.rejects(asked, /no more/);
});

test("a feed goes on from its cursor, and through answers that do not come", async () => {
  const page = (ids: number[], cursor: string, more = false) => ({
    body: { events: ids.map((id) => ({ id: String(id) })), cursor, more },
  });
  const { shop, sent, slept } = scripted([page([1, 2], "a"), problem(503, "overloaded"), page([], "b"), page([3], "c")], {
    retries: 0,
  });
  const feed = shop.events({ since: new Date(0) });
  const seen: string[] = [];
  for await (const event of feed) {
    seen.push(event.id);
    if (event.id === "3") break;
  }
  assert.deepEqual([seen, feed.cursor, slept], [["1", "2", "3"], "b", [1]]);
  assert.deepEqual(
    sent.map((one) => one.path.replace("/v1/clients/shop/events?", "")),
    [
      "since=1970-01-01T00%3A00%3A00.000Z&wait_seconds=30",
      "after=a&wait_seconds=30",
      "after=a&wait_seconds=30",
      "after=b&wait_seconds=30",
    ],
  );
  const ended = scripted([page([1], "a", true), page([2], "b")]);
  assert.equal((await ended.shop.events({ after: "earliest", follow: false }).all()).length, 2);
  assert.deepEqual(ended.sent.map((one) => one.path.split("?")[1]), ["after=earliest", "after=a"]);
});

test("a reconciliation is waited for", async () => {
  const { shop, slept } = scripted([{ body: { state: "running" } }, { body: { state: "running" } }, { body: { state: "finished" } }]);
  let progress = 0;
  const done = await shop.reconciliations.wait("1", { onProgress: () => (progress += 1) });
  assert.deepEqual([done.state, progress, slept], ["finished", 2, [2, 2]]);
});
