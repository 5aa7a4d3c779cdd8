// What is sent, what is made of answers, and how lists are read.

import assert from "node:assert/strict";
import { test } from "node:test";
import {
  Conflict,
  InvalidRequest,
  Minutehand,
  MinutehandApiError,
  MinutehandError,
  MinutehandUnreachable,
  NotFound,
  PreconditionFailed,
  Unauthorized,
} from "minutehand";
import { problem, scripted } from "./scripted.js";

const CALLBACK = { url: "https://shop.example/expire", json: { order: 17 } };

test("a create carries its fields, the key of the client and a key of its own", async () => {
  const { shop, sent } = scripted([{ status: 201, body: { schedule_id: "1" }, headers: { etag: '"7"' } }]);
  const made = await shop.schedules.create(CALLBACK, { due: new Date(0), label: "orders" });
  assert.equal(made.schedule_id, "1");
  assert.equal(made.etag, "7");
  assert.deepEqual(sent, [
    {
      method: "POST",
      path: "/v1/clients/shop/schedules",
      headers: {
        accept: "application/json",
        authorization: "Bearer the-key",
        "content-type": "application/json",
        "idempotency-key": "key-1",
      },
      body: { callback: CALLBACK, due: "1970-01-01T00:00:00.000Z", label: "orders" },
      redirect: "manual",
    },
  ]);
});

test("what was seen is said as a precondition", async () => {
  const { api, shop, sent } = scripted([{ body: {} }, { body: {} }, { body: {} }, { status: 204 }]);
  await shop.schedules.put("cart/17", CALLBACK, { delay_seconds: 1 }, { absent: true, idempotencyKey: "mine" });
  await shop.schedules.cancel("1", { ifMatch: "7" });
  await shop.crons.pause("nightly", undefined, { revision: 3 });
  assert.equal(await api.clients.delete("shop", { revision: 4 }), undefined);
  const named = ["if-match", "if-none-match", "idempotency-key", "content-type"];
  assert.deepEqual(
    sent.map(({ path, headers }) => [path, ...named.map((name) => headers[name])]),
    [
      ["/v1/clients/shop/schedules/by-key/cart%2F17", undefined, "*", "mine", "application/json"],
      ["/v1/clients/shop/schedules/1", '"7"', undefined, undefined, undefined],
      ["/v1/clients/shop/crons/nightly:pause", '"3"', undefined, undefined, undefined],
      ["/v1/clients/shop", '"4"', undefined, undefined, undefined],
    ],
  );
});

test("queries leave out what is undefined, repeat lists and write instants", async () => {
  const { shop, sent } = scripted([{ body: { items: [], next_cursor: null } }]);
  const query = { from: new Date(0), label: ["a b", "c&d"], state: "failed", limit: 7 } as const;
  assert.deepEqual(await shop.schedules.list(query).all(), []);
  const written = "from=1970-01-01T00%3A00%3A00.000Z&label=a%20b&label=c%26d&state=failed&limit=7";
  assert.deepEqual(sent.map((one) => one.path), [`/v1/clients/shop/schedules?${written}`]);
});

test("names that no URL can hold are refused before anything is sent", async () => {
  const { shop, sent } = scripted([]);
  for (const name of ["", ".", ".."]) {
    await assert.rejects(shop.schedules.getByKey(name), TypeError);
  }
  assert.deepEqual(sent, []);
});

test("what can be no address, key or bound is refused at once", () => {
  assert.throws(() => new Minutehand("api.example", "key"), /begins with http/);
  assert.throws(() => new Minutehand("http://", "key"), /no address/);
  assert.throws(() => new Minutehand("http://api.example", "a key\n"), /copied completely/);
  assert.throws(() => new Minutehand("http://api.example", ""), /copied completely/);
  assert.throws(() => new Minutehand("http://api.example", "key", { retries: -1 }), TypeError);
  assert.throws(() => new Minutehand("http://api.example", "key", { timeoutSeconds: 0 }), TypeError);
});

test("a refusal is an error of the class of its status, with the whole problem", async () => {
  for (const [status, kind] of [
    [401, Unauthorized],
    [404, NotFound],
    [409, Conflict],
    [412, PreconditionFailed],
    [418, MinutehandApiError],
  ] as const) {
    const { shop } = scripted([problem(status, "in-flight", { rescheduled_to: "2" })]);
    await assert.rejects(shop.schedules.cancel("1"), (error) => {
      assert.ok(error instanceof MinutehandApiError && error instanceof MinutehandError);
      assert.equal(error.constructor, kind);
      assert.deepEqual([error.name, error.status, error.kind], [kind.name, status, "in-flight"]);
      assert.deepEqual([error.message, error.problem.rescheduled_to], ["in-flight!", "2"]);
      return true;
    });
  }
});

test("an invalid request names every fault", async () => {
  const errors = [{ pointer: "/due", detail: "is past" }, { pointer: "", detail: "is odd" }];
  const { shop } = scripted([problem(422, "invalid", { errors })]);
  await assert.rejects(shop.schedules.create(CALLBACK), (error) => {
    assert.ok(error instanceof InvalidRequest);
    assert.equal(error.message, "invalid!: /due is past; / is odd");
    assert.deepEqual(error.errors, errors);
    return true;
  });
});

test("an answer that is not Minutehand's is none", async () => {
  const text = "<h1>hello</h1>";
  for (const answer of [
    { status: 302, headers: { location: "https://elsewhere.example" } },
    { status: 404, text },
    { status: 404, text, headers: { "content-type": "application/problem+json" } },
    { status: 200, text },
  ]) {
    const { shop, sent } = scripted([answer]);
    await assert.rejects(shop.get(), (error) => error instanceof MinutehandUnreachable && !error.passing);
    assert.equal(sent.length, 1);
  }
});

test("a list is read page by page, and no page before it is needed", async () => {
  const pages = [
    { body: { items: [1, 2], next_cursor: "a b" } },
    { body: { items: [], next_cursor: "c" } },
    { body: { items: [3], next_cursor: null } },
  ];
  const { shop, sent } = scripted([...pages, ...pages]);
  const list = shop.deadLetters.list({ host: "shop.example", limit: 2 });
  for await (const item of list) {
    assert.equal(Number(item), 1);
    break;
  }
  assert.equal(sent.length, 1);
  pages.shift();
  const { shop: again, sent: asked } = scripted([{ body: { items: [1, 2], next_cursor: "a b" } }, ...pages]);
  assert.deepEqual(await again.deadLetters.list({ host: "shop.example", limit: 2 }).all(), [1, 2, 3]);
  const url = "/v1/clients/shop/dead-letters";
  assert.deepEqual(
    asked.map((one) => one.path),
    [`${url}?host=shop.example&limit=2`, `${url}?limit=2&cursor=a%20b`, `${url}?limit=2&cursor=c`],
  );
});

test("a window goes on by the cursor alone, and a rule by its fields and the cursor", async () => {
  const two = [{ body: { items: [1], next_cursor: "c" } }, { body: { items: [2], next_cursor: null } }];
  const { shop, sent } = scripted([...two, ...two, ...two, { body: { count: 5, next_cursor: "c" } }, { body: { count: 7, next_cursor: null } }]);
  const window = { from: "2026-11-21T09:00:00Z", to: "2026-11-21T10:00:00Z" };
  assert.deepEqual(await shop.schedules.cancelWindow(window), [1, 2]);
  const moved = shop.schedules.rescheduleWindow({ ...window, shift_seconds: 60 }, { idempotencyKey: "mine" });
  assert.deepEqual(await moved, [1, 2]);
  assert.deepEqual(await shop.crons.pauseAll({ label: "books" }), [1, 2]);
  assert.equal(await shop.schedules.count({ host: "shop.example" }), 7);
  assert.deepEqual(
    sent.map((one) => [one.body ?? one.path, one.headers["idempotency-key"]]),
    [
      [window, undefined],
      [{ cursor: "c" }, undefined],
      [{ ...window, shift_seconds: 60 }, "mine"],
      [{ cursor: "c" }, undefined],
      [{ label: "books" }, undefined],
      [{ label: "books", cursor: "c" }, undefined],
      ["/v1/clients/shop/schedules:count?host=shop.example", undefined],
      ["/v1/clients/shop/schedules:count?cursor=c", undefined],
    ],
  );
});

test("health is an answer also when it is bad", async () => {
  const { api, sent } = scripted([{ status: 503, body: { status: "unready", reasons: [] } }]);
  assert.equal((await api.health()).status, "unready");
  assert.equal(sent.length, 1);
});

test("what the API would refuse does not compile", () => {
  const { shop } = scripted([]);
  const wrong = [
    // @ts-expect-error: a misspelt field
    () => shop.schedules.create(CALLBACK, { delay_second: 1 }),
    // @ts-expect-error: a cron needs its zone
    () => shop.crons.put("nightly", CALLBACK, { expression: "30 2 * * *" }),
    // @ts-expect-error: a state that is none
    () => shop.schedules.list({ state: "done" }),
    // @ts-expect-error: a create heeds no tag
    () => shop.schedules.create(CALLBACK, {}, { ifMatch: "7" }),
    // @ts-expect-error: a field that no answer has
    async () => (await shop.schedules.get("1")).scheduleId,
  ];
  assert.equal(wrong.length, 5);
});
