// Calls an API with the types that openapi-typescript has made: `calls.js URL ADMIN_KEY`.
// Prints what was answered, one JSON document. The compiler checks paths, parameters, bodies and answers.

import createClient from "openapi-fetch";
import type { components, paths } from "./api.js";

type Problem = components["schemas"]["Problem"];

const [url, adminKey] = process.argv.slice(2) as [string, string];

function clientOf(key?: string) {
  return createClient<paths>({ baseUrl: url, headers: key === undefined ? {} : { Authorization: `Bearer ${key}` } });
}

function right<T>(answer: { data?: T; error?: unknown }): T {
  if (answer.data === undefined) throw new Error(JSON.stringify(answer.error));
  return answer.data;
}

function refused(answer: { data?: unknown; error?: Problem }): Problem {
  if (answer.error === undefined) throw new Error(JSON.stringify(answer.data));
  return answer.error;
}

const admin = clientOf(adminKey);
const path = { client_id: "shop" };
right(await admin.PUT("/v1/clients/{client_id}", { params: { path }, body: { poller_quota: 3 } }));
const made = right(await admin.POST("/v1/clients/{client_id}/keys", { params: { path }, body: { scope: "write" } }));
const shop = clientOf(made.key);

const SCHEDULES = "/v1/clients/{client_id}/schedules";
const callback = { url: "https://receiver.example/hook", headers: { "X-Shop": "17" }, json: { order: 17 } };
const header = { "Idempotency-Key": '"the order 17"' };
const first = await shop.POST(SCHEDULES, { params: { path, header }, body: { callback, delay_seconds: 90 } });
const again = await shop.POST(SCHEDULES, { params: { path, header }, body: { callback, delay_seconds: 90 } });
const one = right(first);
const other = right(await shop.POST(SCHEDULES, { params: { path }, body: { callback, delay_seconds: 91 } }));
const page = right(await shop.GET(SCHEDULES, { params: { path, query: { limit: 1 } } }));
const cursor = page.next_cursor ?? "";
const last = right(await shop.GET(SCHEDULES, { params: { path, query: { limit: 1, cursor } } }));

const BY_KEY = "/v1/clients/{client_id}/schedules/by-key/{schedule_key}";
const named = { path: { ...path, schedule_key: "cart/17" }, header: { "If-None-Match": "*" } };
const keyed = right(await shop.PUT(BY_KEY, { params: named, body: { callback, delay_seconds: 90 } }));

const CRON = "/v1/clients/{client_id}/crons/{cron_id}";
const nightly = { ...path, cron_id: "nightly" };
const rule = { expression: "30 2 * * *", timezone: "Europe/Berlin", callback };
right(await shop.PUT(CRON, { params: { path: nightly }, body: rule }));
const triggered = right(await shop.POST(`${CRON}:trigger`, { params: { path: nightly } }));

const ONE = "/v1/clients/{client_id}/schedules/{schedule_id}";
const it = { params: { path: { ...path, schedule_id: one.schedule_id } } };
right(await shop.DELETE(ONE, it));
const wrong = { callback: { url: "ftp://receiver.example/" }, delay_seconds: -1 };
const problems: Problem[] = [
  refused(await clientOf("no-key").POST(SCHEDULES, { params: { path }, body: { callback, delay_seconds: 90 } })),
  refused(await shop.POST(SCHEDULES, { params: { path }, body: wrong })),
  refused(await shop.POST(SCHEDULES, { params: { path, header }, body: { callback, delay_seconds: 91 } })),
  refused(await shop.POST(`${ONE}:redeliver`, it)),
  refused(await shop.PUT(BY_KEY, { params: named, body: { callback, delay_seconds: 91 } })),
  refused(await shop.GET(ONE, { params: { path: { client_id: "other", schedule_id: one.schedule_id } } })),
];
const explained = await clientOf().GET("/problems/{kind}", { params: { path: { kind: "in-flight" } }, parseAs: "text" });

// @ts-expect-error: a body that the API would refuse does not compile.
const misspelt: components["schemas"]["ScheduleRequest"] = { callback, delay_second: 90 };
// @ts-expect-error: nor does a field that no answer has.
const missing = one.scheduleId;

const answered = {
  replayed: [first.response.status, again.response.status, one.schedule_id === right(again).schedule_id],
  paged: [page.items[0]?.schedule_id === one.schedule_id, last.items[0]?.schedule_id === other.schedule_id],
  key: keyed.key,
  triggered: triggered.cron_id,
  cancelled: right(await shop.GET(ONE, it)).state,
  problems: problems.map((problem) => [problem.status, problem.type]),
  faults: (problems[1]?.errors ?? []).map((fault) => fault.pointer).sort(),
  explained: explained.response.status,
};
console.log(JSON.stringify(answered));
