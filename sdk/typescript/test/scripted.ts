// An API whose answers a test writes, and a clock that moves when somebody sleeps.

import { Minutehand, type MinutehandOptions, type Runtime } from "minutehand";

export interface Sent {
  method: string;
  path: string;
  headers: Record<string, string>;
  body: unknown;
  redirect: string | undefined;
}

/** An answer, or what the fetch fails with. */
export type Answer = Error | { status?: number; headers?: Record<string, string>; body?: unknown; text?: string };

/** The answer of a refusal. */
export function problem(status: number, kind: string, more: object = {}, headers: Record<string, string> = {}): Answer {
  const body = { type: `/problems/${kind}`, title: kind, status, detail: `${kind}!`, request_id: "1", ...more };
  return { status, body, headers: { "content-type": "application/problem+json; charset=utf-8", ...headers } };
}

/** The client of an API that answers so, one request after the other. `sent` has the requests, `slept` the pauses. */
export function scripted(answers: Answer[], options: MinutehandOptions & { fraction?: number } = {}) {
  const sent: Sent[] = [];
  const slept: number[] = [];
  let now = 0;
  let keys = 0;
  const runtime: Runtime = {
    monotonic: () => now,
    fraction: () => options.fraction ?? 1,
    newKey: () => `key-${(keys += 1)}`,
    sleep: (seconds, signal) => {
      slept.push(seconds);
      now += seconds;
      return signal?.aborted ? Promise.reject(signal.reason as Error) : Promise.resolve();
    },
  };
  const fetch = (url: string, init: RequestInit): Promise<Response> => {
    sent.push({
      method: init.method ?? "",
      path: url.replace("http://api.example", ""),
      headers: Object.fromEntries(new Headers(init.headers)),
      body: typeof init.body === "string" ? (JSON.parse(init.body) as unknown) : undefined,
      redirect: init.redirect,
    });
    const answer = answers.shift() ?? new Error("nothing is scripted");
    if (answer instanceof Error) {
      return Promise.reject(answer);
    }
    const { status = 200, headers = {} } = answer;
    const text = answer.text ?? (answer.body === undefined ? null : JSON.stringify(answer.body));
    return Promise.resolve(new Response(text, { status, headers }));
  };
  const api = new Minutehand("http://api.example/", "the-key", { fetch, runtime, ...options });
  return { api, shop: api.client("shop"), sent, slept };
}
