// Uses a real API once: `story.js URL ADMIN_KEY`. Prints what was answered, one JSON document.

import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { Conflict, Minutehand, NotFound, PreconditionFailed, Unauthorized } from "minutehand";
import { VerificationError, type VerifiedCallback, verify } from "minutehand/webhooks";

const [url, adminKey] = process.argv.slice(2) as [string, string];

/** The kind of the refusal that a request meets. */
async function kindOf(request: Promise<unknown>, type: typeof Conflict): Promise<string> {
  try {
    await request;
  } catch (error) {
    if (error instanceof type) return error.kind;
    throw error;
  }
  throw new Error("it was not refused");
}

const admin = new Minutehand(url, adminKey);
const registered = await admin.clients.register("shop", { poller_quota: 3 });
const { key } = await admin.client("shop").keys.create({ scope: "manage" });
const api = new Minutehand(`${url}/`, key);
const shop = api.client("shop");
const callback = { url: "https://receiver.example/hook", json: { order: 17 } };

const keyed = { idempotencyKey: "the-order-17" };
const first = await shop.schedules.create(callback, { delay_seconds: 90, label: "orders" }, keyed);
const again = await shop.schedules.create(callback, { delay_seconds: 90, label: "orders" }, keyed);
const other = await shop.schedules.create(callback, { delay_seconds: 91, label: "orders" });
const [item, refused] = await shop.schedules.createBatch([
  { callback, delay_seconds: 92, label: "orders" },
  { callback: { url: "ftp://receiver.example/" }, delay_seconds: 92 },
]);
const listed: string[] = [];
for await (const one of shop.schedules.list({ label: "orders", limit: 2 })) {
  listed.push(one.schedule_id);
}
const made = [first.schedule_id, other.schedule_id, item?.schedule?.schedule_id];
const seen = await shop.schedules.get(first.schedule_id);
const cancelled = await shop.schedules.cancel(first.schedule_id, { ifMatch: seen.etag ?? "" });

const put = await shop.schedules.put("cart/17", callback, { delay_seconds: 600 }, { absent: true });
const stale = shop.schedules.put("cart/17", callback, { delay_seconds: 900 }, { absent: true });
const waiting = await kindOf(stale, PreconditionFailed);
const moved = await shop.schedules.put("cart/17", callback, { delay_seconds: 900 });
const named = await shop.schedules.getByKey("cart/17");

const cron = await shop.crons.put("nightly", callback, { expression: "30 2 * * *", timezone: "Europe/Berlin" });
const triggered = await shop.crons.trigger("nightly");
const preview = await api.previewCron("30 2 * * *", { timezone: "Europe/Berlin", from: new Date(0), count: 1 });

const { secret, secret_id } = registered.signing_secret ?? { secret: "", secret_id: "" };
const pair = await shop.signingSecrets.create({ scheme: "v1a" });
const [publicKey] = await shop.signingSecrets.publicKeys();
const received: (VerifiedCallback | undefined)[] = [];
const receiver = createServer(async (request, response) => {
  const body = Buffer.concat(await request.toArray());
  try {
    for (const known of [secret, publicKey?.public_key ?? ""]) {
      received.push(await verify(body, request.headers, known));
    }
    await verify(Buffer.concat([body, Buffer.from(" ")]), request.headers, secret);
    response.writeHead(500).end();
  } catch (error) {
    response.writeHead(error instanceof VerificationError ? 204 : 500).end(String(error));
  }
});
await new Promise<void>((resolve) => receiver.listen(0, "127.0.0.1", resolve));
const { port } = receiver.address() as AddressInfo;
const exchange = await shop.trialCall({ url: `http://127.0.0.1:${port}/hook`, json: { order: 17 } });
receiver.close();
await shop.signingSecrets.delete(secret_id);

console.log(
  JSON.stringify({
    health: (await api.health()).status,
    repeated: again.schedule_id === first.schedule_id,
    batch: [item?.status, refused?.problem?.errors?.map((fault) => fault.pointer)],
    listed: JSON.stringify(listed) === JSON.stringify(made),
    counted: await shop.schedules.count({ label: "orders" }),
    cancelled: [cancelled.state, (await shop.schedules.get(first.schedule_id)).state],
    key: [waiting, named.key, named.schedule_id === moved.schedule_id, named.schedule_id === put.schedule_id],
    cron: [cron.state, triggered.cron_id, preview.next_fires],
    exchange: exchange.status,
    received: received.map((one) => [one?.webhookId === exchange.schedule_id, one?.clientId, one?.attempt, one?.trial]),
    secrets: (await shop.signingSecrets.list()).map((one) => one.secret_id === pair.secret_id),
    refusals: [
      await kindOf(new Minutehand(url, "no-key").client("shop").get(), Unauthorized),
      await kindOf(shop.schedules.redeliver(first.schedule_id), Conflict),
      await kindOf(api.client("other").schedules.get(first.schedule_id), NotFound),
      await kindOf(shop.schedules.cancel(other.schedule_id, { ifMatch: "0" }), PreconditionFailed),
    ],
  }),
);
