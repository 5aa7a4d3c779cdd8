// Made of the OpenAPI document by `make sdk`. Fields have the names of the API.

/** An instant: RFC 3339 with an offset, or a Date. */
export type Instant = string | Date;

/** Some items, and the cursor of those after them. */
export interface Page<T> {
  items: T[];
  next_cursor: string | null;
}

/**
 * The receiver may answer 202, and has `within_seconds` from then to say by `Minutehand-Ack-Url` what became of the
 * call.
 */
export interface Ack {
  within_seconds: number;
}

/**
 * The schedule that the word is about. `state`: awaiting until its node has recorded the word, within a second as a
 * rule. `deadline`: until when another word is awaited, null if none is.
 */
export interface AckAnswer {
  schedule_id: string;
  state: "scheduled" | "retrying" | "awaiting" | "delivered" | "failed" | "cancelled" | "skipped";
  deadline: string | null;
}

/**
 * What became of the call. done: the schedule is delivered. failed: the attempt has failed, and is retried by policy.
 * extend: more time is needed, `within_seconds` from now (as in the callback's `ack` unless given). `data` is any JSON,
 * up to 64 KiB, and kept with the attempt.
 */
export interface AckRequest {
  result: "done" | "extend" | "failed";
  reason?: string | null;
  within_seconds?: number | null;
  data?: unknown;
}

/**
 * How many letters this request has acknowledged, and the result for each, also of those that were acknowledged before.
 * `next_cursor` null: there are no more.
 */
export interface Acknowledged {
  acknowledged: number;
  items: AcknowledgedItem[];
  next_cursor: string | null;
}

/** The result for one letter. `status`: 200 it is acknowledged, by whom and when; 404 there is no such letter. */
export interface AcknowledgedItem {
  letter_id: string;
  status: number;
  acknowledged_at?: string | null;
  acknowledged_by?: string | null;
}

/**
 * What a receiver said later of an attempt: `result` is done, failed or extend; `data` is its JSON, null if there was
 * none.
 */
export interface Acknowledgement {
  result: "done" | "extend" | "failed";
  at: string;
  reason: string | null;
  data: unknown;
}

export type Action = "cancel" | "redeliver" | "report" | "skip";

/** An administrator's key without its secret. */
export interface AdminKey {
  key_id: string;
  name: string;
  created_at: string;
  revoked_at: string | null;
}

/** The name of the administrator that the key is for. */
export interface AdminKeyRequest {
  name: string;
}

/**
 * One attempt. `outcome` is delivered, failed, snoozed, or awaiting while its receiver has yet to say. `excerpt` is the
 * beginning of the receiver's answer to a failed attempt; where `status` is null, as for every call to a topic, it is a
 * sentence that says why, and `error` a stable word. `verb` is what the receiver asked for in the headers of its answer
 * (not-again, snooze or stop-cron), and `verb_ignored` why that was not obeyed. `acknowledgement`: the last that the
 * receiver said after it had answered 202, null if nothing. A field is null if it was not recorded.
 */
export interface Attempt {
  attempt: number;
  outcome: string;
  started_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  status: number | null;
  error: string | null;
  excerpt: string | null;
  verb: string | null;
  verb_ignored: string | null;
  acknowledgement: Acknowledgement | null;
}

/**
 * One audit of the window from `from` to before `to`. `findings` counts them by kind, `shown` has the first of them;
 * `repaired` counts repairs; `left_out` says what was not examined.
 */
export interface Audit {
  audit_id: string;
  audited_at: string;
  from: string;
  to: string;
  counts: AuditCounts;
  findings: Record<string, number>;
  shown: AuditFinding[];
  repaired: Record<string, number>;
  left_out: string[];
}

/**
 * The schedules of the window, counted from their rows. accepted is the sum of the others, unless a finding explains
 * the difference.
 */
export interface AuditCounts {
  accepted: number;
  delivered: number;
  failed: number;
  cancelled: number;
  skipped: number;
  open: number;
}

/**
 * An action of an administrator, with `by_client` of a client about itself, or of a node by itself, such as the pause
 * of a cron whose runs fail. `actor` is the administrator's name, the client's, or `$system`: then `details` name the
 * node, and `request_id` is empty. A client sees administrators without their names and keys. `key_id` is null for the
 * configured key and for nodes; `action` is an operation of this API or, of the console, show_content; `target` the
 * names in its path, `details` the ids of what it made or changed.
 *
 * `result`: done; refused (nothing was changed); or unknown (it may have been done). `status` null: no answer was
 * recorded.
 */
export interface AuditEntry {
  entry_id: string;
  at: string;
  actor: string;
  key_id: string | null;
  by_client: boolean;
  action: string;
  client_id: string | null;
  target: Record<string, string>;
  request_id: string;
  result: "done" | "refused" | "unknown";
  status: number | null;
  problem: string | null;
  details: Record<string, string | number>;
}

/** One violation. Fields that do not apply are null: it may concern a poller's minute, or a cron. */
export interface AuditFinding {
  kind: string;
  detail: string;
  poller_id: number | null;
  minute: string | null;
  due: string | null;
  schedule_id: string | null;
}

/**
 * One fire. `status`: 202 it is called at `due`, in a dry run it would be; 409 it is left as it is, because it was
 * made, waits or was cancelled (`state` and `reason` say so); 404 it is not kept any more; 503 unknown, repeat the
 * request. `schedule_id`: its schedule; in a dry run that which it would have.
 */
export interface BackfillItem {
  nominal_due: string;
  status: number;
  schedule_id: string;
  due: string | null;
  state: "scheduled" | "retrying" | "awaiting" | "delivered" | "failed" | "cancelled" | "skipped" | "expired" | null;
  reason?: string | null;
}

/**
 * The fires of the present rule with from <= nominal instant < to, RFC 3339; `to` left out: now. `dry_run`: only say
 * which would be made. Continue with the cursor beside the same fields.
 */
export interface BackfillRequest {
  from: Instant;
  to?: Instant | null;
  dry_run?: boolean;
  cursor?: string | null;
}

/** What of a client is overdue, and why. */
export interface Backlog {
  client_id: string;
  overdue: Overdue;
  pollers: number;
  pollers_behind: number;
  held_by: (
    | "client-suspended"
    | "client-paused"
    | "no-owner"
    | "destination-paused"
    | "receiver-open"
    | "quota"
    | "overdue-rate"
    | "recovery"
  )[];
  late_policy: LatePolicy;
  to_skip: number;
  at_most_once: boolean;
  overdue_per_second: number | null;
  drain_seconds: number | null;
}

/** The results of the items, in order. */
export interface Batch {
  items: BatchItem[];
}

/** The result of an item: `status` 201 with the `schedule`, or the status of the `problem`. */
export interface BatchItem {
  status: number;
  schedule?: Schedule;
  problem?: Problem;
}

/** Several schedules; each is created or refused independently. */
export interface BatchRequest {
  items: readonly NewSchedule[];
}

/** Of one node. From bad to good, the first of which is shown for all of them. */
export type BreakerState = "closed" | "half-open" | "open";

/**
 * Which days are off, and what happens to their fires.
 *
 * `country` is an ISO 3166-1 code of two letters, `subdivision` what the package knows in it (ISO 3166-2 without the
 * country, mostly). `dates` are ISO dates. `weekends`: those of the country, else Saturday and Sunday; working days
 * that a country puts on a weekend are no days off.
 */
export interface Calendar {
  country?: string | null;
  subdivision?: string | null;
  dates?: string[];
  weekends?: boolean;
  on?: "move-next" | "move-previous" | "skip";
}

/**
 * The request to make: to `url`, or to a `destination` of the client's, with a `path` below its URL. Of a destination's
 * callback, what is left out is as the destination says: the method, and headers by other names. Without a destination
 * the method is POST.
 *
 * Its body is `body` (text, sent as UTF-8), `json` (sent byte for byte as written here, with a JSON content type unless
 * the headers say otherwise) or `body_base64`; at most one of them. Without any of them, methods that may have a body
 * carry `schedule_id`, `key` (if there is one), `due` and `attempt` as JSON. An empty `body` stays empty.
 *
 * Calls with the same `flow_key` share a rate (`flow_rate` calls a second, may be below 1) and a parallelism
 * (`flow_parallelism` calls at a time), over all nodes. What is left out is as the client's setting `flows` says.
 *
 * With `ack` the receiver may answer 202 and say later, at the address in `Minutehand-Ack-Url`, what became of the
 * call; until then the schedule is `awaiting`. No word within `ack.within_seconds` is a failed attempt.
 */
export interface Callback {
  url?: string | null;
  destination?: string | null;
  path?: string | null;
  method?: "DELETE" | "GET" | "HEAD" | "OPTIONS" | "PATCH" | "POST" | "PUT" | null;
  headers?: Record<string, string>;
  body?: string | null;
  json?: unknown;
  body_base64?: string | null;
  flow_key?: string | null;
  flow_rate?: number | null;
  flow_parallelism?: number | null;
  ack?: Ack | null;
}

/**
 * What changes of the request to make. `headers` are merged by name, in any case; null takes one away. A new body is
 * `body`, `json` or `body_base64`, one of them, and removes the old content type; `"body": null` means the default
 * body, `"json": null` the text `null`. A `url` removes the destination and its path, a `destination` the URL;
 * `"method": null` means the destination's, or POST.
 */
export interface CallbackUpdate {
  url?: string;
  destination?: string;
  path?: string | null;
  method?: "DELETE" | "GET" | "HEAD" | "OPTIONS" | "PATCH" | "POST" | "PUT" | null;
  headers?: Record<string, string | null>;
  body?: string | null;
  json?: unknown;
  body_base64?: string;
  flow_key?: string | null;
  flow_rate?: number | null;
  flow_parallelism?: number | null;
}

/**
 * A client's first attempts within the last minute, how late they began on average, and how many attempts failed,
 * retries among them. Nodes of older versions do not count the last.
 */
export interface CallingClient {
  client_id: string;
  calls: number;
  mean_late_seconds: number;
  failed_attempts: number;
}

/**
 * The result for one schedule. `status`: 200 cancelled; 404 not found; 409 in flight, or ended otherwise (`state` says
 * how); 503 unknown, retry.
 *
 * `reason` in-doubt with 200: it is not called again, and may have been called before. `rescheduled_to` with 409: the
 * schedule that is called instead of a cancelled one; this request does not cancel it.
 */
export interface CancelItem {
  schedule_id: string;
  status: number;
  state: string | null;
  reason?: string | null;
  rescheduled_to?: string | null;
}

/**
 * Either ids, or a window by due with the filters of a listing: then every schedule in it that has not ended is
 * cancelled, except those rescheduled to an instant outside the window. A cursor contains its window. `state` is
 * scheduled or retrying; left out: both. A list of states or labels means any of them.
 */
export interface CancelRequest {
  label?: string | readonly string[] | null;
  cron_id?: string | null;
  destination?: string | null;
  host?: string | null;
  key_prefix?: string | null;
  state?: State | readonly State[] | null;
  schedule_ids?: readonly string[] | null;
  from?: Instant | null;
  to?: Instant | null;
  cursor?: string | null;
}

/**
 * The certificate that calls present to the receiver, in PEM: the `chain`, the client's own certificate first, and its
 * private `key`, not encrypted. RSA of 2048 to 4096 bits, P-256, P-384, P-521, Ed25519 or Ed448.
 */
export interface CertificateRequest {
  chain: string;
  key: string;
}

/**
 * A client. `settings` are in force, within the operator's bounds; `stored_settings` are as they were put, so putting
 * them again changes nothing. `paused`: it holds its calls itself, whatever its state.
 */
export interface Client {
  client_id: string;
  poller_quota: number;
  poller_ceiling: number;
  guaranteed_calls_per_minute: number;
  state: "active" | "suspended" | "deleted";
  paused: boolean;
  settings: ClientSettings;
  stored_settings: ClientSettings;
  revision: number;
  created_at: string;
}

/** A client certificate: whose it is, and until when it is good. */
export interface ClientCertificate {
  subject: string;
  expires_at: string;
}

/** The quota and settings that the client shall have. Settings that are left out get their defaults. */
export interface ClientRequest {
  poller_quota: number;
  settings?: ClientSettings | null;
}

/** A client's settings. Null: derived from the quota. The operator may have set lower bounds than those here. */
export interface ClientSettings {
  retry?: RetrySettings;
  timeout_seconds?: number;
  max_in_flight?: number | null;
  hosts?: Record<string, HostLimit>;
  flows?: FlowRules;
  late_policy?: LatePolicy;
  in_doubt?: "drop" | "redeliver";
  receiver_verbs?: ("not-again" | "snooze" | "stop-cron")[];
  horizon_days?: number;
  accept_past_seconds?: number;
  retention_days?: number;
  payload_bytes?: number;
  header_bytes?: number;
  create_rate_per_second?: number | null;
  max_crons?: number;
  read_consistency?: "LOCAL_ONE" | "LOCAL_QUORUM";
  write_consistency?: "EACH_QUORUM" | "LOCAL_QUORUM";
  event_feed?: boolean;
  overdue_per_second?: number | null;
}

/** Calls are CloudEvents of this type, from this source. */
export interface CloudEvents {
  type: string;
  source: string;
}

/** Calls are CloudEvents 1.0 in binary mode, with this `type` and this `source`, a URI reference. */
export interface CloudEventsRequest {
  type: string;
  source: string;
}

/**
 * The cluster. `guaranteed_calls_per_minute`: what the quotas of all clients guarantee; `capacity_per_minute`: what the
 * live nodes are sized for. `not_calling`: a sentence that says why no calls are made now; null while calls are made.
 */
export interface Cluster {
  nodes: Node[];
  pollers: Pollers;
  guaranteed_calls_per_minute: number;
  capacity_per_minute: number;
  not_calling: string | null;
}

/** What is overdue of all clients with a poller that is behind, as of some seconds ago. */
export interface ClusterBacklog {
  overdue: Overdue;
  clients: number;
  drain_seconds: number | null;
  items: Backlog[];
  next_cursor?: string | null;
}

/**
 * How many schedules there are. `next_cursor` null: in the whole window, as they were counted, while some of them may
 * have changed. Else `count` is that of the part of the window before the cursor; asked with the cursor, the count goes
 * on from there and includes it.
 */
export interface Count {
  count: number;
  next_cursor: string | null;
}

/**
 * A cron. `expression`, `also` and `excluding` are the rule in its `dialect`; `rule` is all of it in canonical form,
 * `words` an English phrase (null if it can't be read any more). `next_fires`: the next nominal instants, empty unless
 * `state` is active. `changed_at`: when this `revision` was made. `pause`: null unless `state` is paused.
 */
export interface Cron {
  cron_id: string;
  client_id: string;
  state: "active" | "paused" | "finished" | "deleted";
  revision: number;
  expression: string;
  dialect: "cronie" | "minutehand" | "goscheduler" | "quartz" | "aws" | "spring";
  also: string[];
  excluding: string[];
  calendar: Calendar | null;
  rule: string;
  timezone: string;
  words: string | null;
  next_fires: string[];
  callback: SentCallback;
  starts_at: string | null;
  ends_at: string | null;
  max_fires: number | null;
  spread_seconds: number;
  catch_up_seconds: number;
  overlap: string;
  dst: DstRequest;
  retry: Retry | null;
  timeout_seconds: number | null;
  label: string | null;
  ordering_key: string | null;
  pause_after_failures: number | null;
  on_success: string | null;
  on_failure: string | null;
  succeed_within_seconds: number | null;
  pause: CronPause | null;
  created_at: string;
  changed_at: string;
}

/**
 * The result for one cron. `status`: 200 it is as wanted (`changed`: by this request), in a dry run it would be; 404
 * deleted meanwhile; 409 finished; 503 unknown, repeat the request. `state`: afterwards, in a dry run the present one;
 * null if it is unknown.
 */
export interface CronChange {
  cron_id: string;
  status: number;
  state: "active" | "paused" | "finished" | "deleted" | null;
  changed: boolean;
  revision?: number | null;
}

/**
 * Why a cron is paused: since when, with what note. `by` request: somebody asked for it; failures: its last runs
 * failed, as `pause_after_failures` says.
 */
export interface CronPause {
  at: string;
  by: "request" | "failures";
  note: string | null;
}

/** A rule in its dialect, in canonical form and in words, with its first nominal instants. */
export interface CronPreview {
  expression: string;
  dialect: "cronie" | "minutehand" | "goscheduler" | "quartz" | "aws" | "spring";
  also: string[];
  excluding: string[];
  calendar: Calendar | null;
  rule: string;
  timezone: string;
  words: string;
  next_fires: string[];
}

/**
 * A fire of a cron, or a triggered run. `nominal_due` is the instant of the rule, `due` when it is called. `state` is
 * that of the schedule; `planned` if there is none yet, `expired` if it was deleted. `kind`: scheduled by the rule,
 * triggered, or backfilled, which a skipped fire is as well that was redelivered. `duration_seconds`: from the start of
 * the first attempt to the end.
 */
export interface CronRun {
  nominal_due: string;
  due: string;
  schedule_id: string | null;
  state:
    | "planned"
    | "scheduled"
    | "retrying"
    | "awaiting"
    | "delivered"
    | "failed"
    | "cancelled"
    | "skipped"
    | "expired";
  attempts: number;
  last_status: number | null;
  last_error: string | null;
  first_attempt_at: string | null;
  finished_at: string | null;
  duration_seconds: number | null;
  reason: string | null;
  kind: "scheduled" | "triggered" | "backfilled";
  triggered: boolean;
}

/**
 * The schedules due on one day in UTC, counted at `counted_at`. `complete`: none of them was open then, so that only a
 * redelivery changes the counts. `failing_hosts`: the ten where most failed. Hours without schedules are left out.
 */
export interface DayUsage {
  accepted: number;
  delivered: number;
  failed: number;
  cancelled: number;
  skipped: number;
  open: number;
  attempts: number;
  bytes: number;
  lateness: UsedLateness | null;
  day: string;
  complete: boolean;
  counted_at: string;
  failing_hosts: FailingHost[];
  hours: HourUsage[];
}

/**
 * A schedule that failed for good at `failed_at`, and why. `letter_id` names this failure in requests. `state` is its
 * present state, or expired if the schedule was deleted. `host` is that of its URL, unless its call names a
 * `destination`; older nodes' letters have neither. `acknowledged_by`: the id of a key, or the name of an
 * administrator.
 */
export interface DeadLetter {
  letter_id: string;
  schedule_id: string;
  failed_at: string;
  reason: string | null;
  last_status: number | null;
  last_error: string | null;
  attempts: number;
  state: string;
  label: string | null;
  host: string | null;
  destination: string | null;
  acknowledged_at: string | null;
  acknowledged_by: string | null;
}

/**
 * A destination. Its secrets are never shown: of headers only the names, of a certificate only whose it is. `retry` and
 * `timeout_seconds` null: as the client's settings say. `paused_at`: since when its calls wait; null: they are made.
 * `changed_at`: when this `revision` was made. `figures`: where one destination is shown, else null. `url` of another
 * `kind` than http: its `target` in one line, such as kafka://main/orders.
 */
export interface Destination {
  name: string;
  client_id: string;
  url: string;
  kind: string;
  target: Record<string, unknown> | null;
  method: string;
  headers: Record<string, string>;
  timeout_seconds: number | null;
  retry: Retry | null;
  max_per_second: number | null;
  max_in_flight: number | null;
  certificate: ClientCertificate | null;
  token: TokenSource | null;
  proxy: ForwardProxy | null;
  cloudevents: CloudEvents | null;
  paused_at: string | null;
  revision: number;
  created_at: string;
  changed_at: string;
  figures: DestinationFigures | null;
}

/**
 * What became of a destination's calls in the last hour, as the nodes that run now have counted. `failures`: calls
 * without a 2xx answer. `answer_p50_seconds`, `answer_p99_seconds`: half, and 99 of 100, of the answers took no longer,
 * at most 19 % too high; null: there were none. `in_flight`: calls under way; `waiting`: calls read and not begun;
 * `deferred`: calls that come back later, because the destination is paused, its breaker is open or it has no token.
 * `token_failures`: fetches of a token that got none; destinations with the same `token` share them. `breaker`: the
 * worst that a node has. `silent_nodes`: how many nodes did not answer.
 */
export interface DestinationFigures {
  calls: number;
  failures: number;
  answer_p50_seconds: number | null;
  answer_p99_seconds: number | null;
  in_flight: number;
  waiting: number;
  deferred: number;
  token_failures: number;
  breaker: BreakerState;
  silent_nodes: number;
}

/** A node that has begun to drain, or (`live`) to take pollers again. */
export interface DrainingNode {
  node_id: string;
  incarnation: number;
  state: string;
}

/** What to do with fixed times of day that a change of clocks skips (`gap`) or repeats (`fold`). */
export interface DstRequest {
  gap?: "shift" | "skip";
  fold?: "both" | "first";
}

/**
 * One event. `id` is the same however often the event is shown. `data` depends on the type; for the end of a schedule
 * it has `due`, `attempts` and, where there are such, `label`, `key`, `cron_id`, `destination`, `last_status`,
 * `last_error`, `reason`, `rescheduled_to`.
 */
export interface Event {
  id: string;
  type: string;
  at: string;
  schedule_id: string | null;
  data: Record<string, unknown>;
}

/** Only events that match all that is not null. */
export interface EventFilter {
  label: string | null;
  key_prefix: string | null;
  cron_id: string | null;
  destination: string | null;
}

/** What an event tells. The words are part of the API. */
export type EventType =
  | "books.unbalanced"
  | "cron.missed"
  | "destination.closed"
  | "destination.opened"
  | "quota.exceeded"
  | "schedule.cancelled"
  | "schedule.delivered"
  | "schedule.failed"
  | "schedule.overdue"
  | "schedule.skipped";

/**
 * A trial call and the receiver's answer.
 *
 * `delivered`: this answer would count as delivered. `schedule_id` is the id that the receiver got; it names no
 * schedule. `request` is what was sent, or with `sent` false would have been. `addresses` are those to which a
 * connection was tried, in order; `connected_to` is the one that accepted it. Without `status`, `error` is a stable
 * word for the cause and `detail` a sentence; a call delivered to a topic has neither. `excerpt` is the beginning of
 * the answer; repeated headers are joined by commas. `verb` is what its headers ask for, and `verb_ignored` why a
 * schedule would not obey.
 */
export interface Exchange {
  schedule_id: string;
  delivered: boolean;
  sent: boolean;
  started_at: string;
  request: SentCallback;
  addresses: string[];
  connected_to: string | null;
  times: TrialCallTimes;
  status: number | null;
  http_version: string | null;
  response_headers: Record<string, string>;
  excerpt: string;
  error: string | null;
  detail: string | null;
  verb: string | null;
  verb_ignored: string | null;
}

/** How many schedules failed at a receiver's host, or at a destination, which is `destination:NAME` in `host`. */
export interface FailingHost {
  host: string;
  failed: number;
}

/**
 * A fault of a request. `pointer`: a JSON pointer (RFC 6901) into its body, or `/NAME` for a query parameter or header.
 */
export interface Fault {
  pointer: string;
  detail: string;
}

/** `cursor`: what to give as `after` next, also when there are no events. `more`: there are others already. */
export interface Feed {
  events: Event[];
  cursor: string;
  more: boolean;
}

/** The filters that were given. */
export interface Filter {
  label?: string[];
  cron_id?: string | null;
  destination?: string | null;
  host?: string | null;
  key_prefix?: string | null;
}

/** Calls of one flow key: started a second (may be below 1), and under way at a time. Null: not limited. */
export interface FlowLimits {
  rate?: number | null;
  parallelism?: number | null;
}

/** The limits of flow keys that begin with a prefix, of which the longest counts, and by default of all others. */
export interface FlowRules {
  default?: FlowLimits;
  prefixes?: Record<string, FlowLimits>;
}

/** What the minutes of a window are to call. Minutes without calls are in no run. */
export interface Forecast {
  from: string;
  to: string;
  guaranteed_per_minute: number;
  capacity_per_minute: number;
  calls: number;
  minutes_beyond_guarantee: number;
  minutes_beyond_capacity: number;
  crons_left_out: number;
  peak: ForecastPeak | null;
  runs: ForecastRun[];
}

/** The minute with most calls, the first of several. */
export interface ForecastPeak {
  minute: string;
  calls: number;
}

/** Consecutive minutes with calls: `from` is the first, the lists have a number for each. */
export interface ForecastRun {
  from: string;
  rows: number[];
  fires: number[];
}

/** A forward proxy, and the name that is used there; null: none. */
export interface ForwardProxy {
  url: string;
  username: string | null;
}

/** Whether this process can do its work, and if not, why. `status`: ok or unavailable. */
export interface Health {
  status: string;
  reasons?: HealthReason[];
}

/** Why a process can't do its work: a stable word for programs, a sentence for people. */
export interface HealthReason {
  reason: string;
  detail: string;
}

/** Limits for one receiver's host. */
export interface HostLimit {
  max_in_flight?: number | null;
  max_per_second?: number | null;
}

/** The schedules due in one hour. */
export interface HourUsage {
  accepted: number;
  delivered: number;
  failed: number;
  cancelled: number;
  skipped: number;
  open: number;
  attempts: number;
  bytes: number;
  lateness: UsedLateness | null;
  hour: string;
}

/** A key without its secret. `last_used_at` is an hour or so behind; null: it was not used yet. */
export interface Key {
  key_id: string;
  name: string | null;
  scope: "read" | "write" | "manage";
  created_at: string;
  expires_at: string | null;
  last_used_at: string | null;
  revoked_at: string | null;
}

/**
 * What a key is to be. `scope`: read, write (which includes read) or manage (which includes both). `name` says what it
 * is for. `expires_at` null: it is good until it is revoked.
 */
export interface KeyRequest {
  scope?: Scope;
  name?: string | null;
  expires_at?: Instant | null;
}

/**
 * A part of the first attempts (0.99: 99 %), and within how many seconds of their due they began; null: there were
 * none, or some began more than an hour late.
 */
export interface LateCalls {
  part: number;
  seconds: number | null;
}

/**
 * Whether a call that could not be made in time is made however late (fire), or skipped after some seconds (skip).
 *
 * Lateness counts from the due. If a running node learned of a schedule only after that, lateness counts from then, so
 * a create that was answered in time is not skipped.
 */
export interface LatePolicy {
  kind?: "fire" | "skip";
  after_seconds?: number;
}

/**
 * How much later than due the first attempts began. p50 and p99 are upper bounds: the lowest of the steps 5, 10, 20,
 * 50, 100, 200, 500 ms, 1, 2, 5, 10, 30 s, 1, 10, 60 min that this share did not exceed, or `max_seconds` if that is
 * less.
 */
export interface Lateness {
  p50_seconds: number;
  p99_seconds: number;
  max_seconds: number;
}

/**
 * A client's newest audit, of the window from `from` to before `to`. `findings` counts them by kind; the client's own
 * list of audits shows them. `repaired` counts repairs; `left_out` says what was not examined.
 */
export interface LatestAudit {
  client_id: string;
  audit_id: string;
  audited_at: string;
  from: string;
  to: string;
  counts: AuditCounts;
  findings: Record<string, number>;
  repaired: Record<string, number>;
  left_out: string[];
}

/** The newest audit of each client, as of some seconds ago. */
export interface LatestAudits {
  items: LatestAudit[];
  clients: number;
  clients_unaudited: number;
  clients_left_out: number;
  findings_standing: number | null;
  next_cursor?: string | null;
}

/**
 * Dead letters: either listed ones, by `letter_ids`, or those of a window that fit all the filters, as in their list,
 * and are not acknowledged. A cursor contains window and filters.
 */
export interface LettersRequest {
  letter_ids?: readonly string[] | null;
  from?: Instant | null;
  to?: Instant | null;
  host?: string | null;
  destination?: string | null;
  status?: string | null;
  reason?: string | null;
  error?: string | null;
  label?: string | null;
  limit?: number | null;
  cursor?: string | null;
}

/**
 * The instant at which clocks in `timezone` (an IANA name) show `local`, such as 2027-03-28T02:30. If a change of
 * clocks skips it, `gap` shift is the instant right after the change, and skip refuses it; if it is repeated, `fold`
 * says which of the two.
 */
export interface LocalTime {
  local: string;
  timezone: string;
  gap?: "shift" | "skip";
  fold?: "first" | "second";
}

/**
 * The books of the schedules due in one minute: accepted = delivered + failed + cancelled + skipped + open. `lateness`
 * null: no attempt was made.
 */
export interface MinuteBalance {
  minute: string;
  accepted: number;
  delivered: number;
  failed: number;
  cancelled: number;
  skipped: number;
  open: number;
  lateness: Lateness | null;
}

/** A new key of an administrator, which is shown only once. */
export interface NewAdminKey {
  key_id: string;
  name: string;
  key: string;
  created_at: string;
}

/** A new client with its first signing secret, which is shown only once. */
export interface NewClient {
  client_id: string;
  poller_quota: number;
  poller_ceiling: number;
  guaranteed_calls_per_minute: number;
  state: "active" | "suspended" | "deleted";
  paused: boolean;
  settings: ClientSettings;
  stored_settings: ClientSettings;
  revision: number;
  created_at: string;
  signing_secret: NewSigningSecret;
}

/**
 * A rule and the call to make at each of its fires.
 *
 * It fires when `expression` or one of `also` does, which are read in `dialect` (without one: five fields, as cronie
 * reads them) and in `timezone` (an IANA name); not at minutes that one of `excluding` matches, and on days off as
 * `calendar` says. It fires from `starts_at` to before `ends_at` (RFC 3339 with an offset), `max_fires` times at most.
 * Each fire is delayed by up to `spread_seconds`, always by the same time for one cron. Fires missed by more than
 * `catch_up_seconds` are skipped. `overlap` says what becomes of a run that is due while an earlier one has not ended:
 * allow, skip, buffer_one, buffer_all or cancel_other. Runs have its `ordering_key`, as schedules do. After
 * `pause_after_failures` failed runs in a row it is paused. `on_success` and `on_failure` are those of its runs, as
 * schedules have them. The event `schedule.overdue` tells of each run that was not delivered within
 * `succeed_within_seconds` of its due.
 */
export interface NewCron {
  expression: string;
  timezone: string;
  dialect?: "aws" | "cronie" | "goscheduler" | "minutehand" | "quartz" | "spring";
  also?: readonly string[];
  excluding?: readonly string[];
  calendar?: Calendar | null;
  dst?: DstRequest;
  callback: Callback;
  starts_at?: Instant | null;
  ends_at?: Instant | null;
  max_fires?: number | null;
  spread_seconds?: number;
  catch_up_seconds?: number;
  overlap?: "allow" | "buffer_all" | "buffer_one" | "cancel_other" | "skip";
  retry?: Retry | null;
  timeout_seconds?: number | null;
  label?: string | null;
  ordering_key?: string | null;
  pause_after_failures?: number | null;
  on_success?: string | null;
  on_failure?: string | null;
  succeed_within_seconds?: number | null;
}

/**
 * Where calls go, and how. A callback names the destination, and may add a path below its `url`. What is changed here
 * holds for all calls that start once nodes know of it, within a few seconds.
 *
 * `kind` is `http`, with a `url`, or one that the operator offers, such as `kafka`, with a `target` as that kind
 * demands. Other kinds than http have no `url`, `method`, `certificate`, `token` and `proxy`; a callback's path is sent
 * to them as the header `Minutehand-Path`, and its method is not sent.
 *
 * `max_per_second` and `max_in_flight` hold over all nodes and all calls of this destination. `retry` and
 * `timeout_seconds`, if they are left out, are as the client's settings say. Header values, `key`, `client_secret` and
 * `password` are never shown again: a change is a whole, so it must name them again.
 */
export interface NewDestination {
  url?: string | null;
  kind?: string;
  target?: Record<string, unknown> | null;
  method?: "DELETE" | "GET" | "HEAD" | "OPTIONS" | "PATCH" | "POST" | "PUT";
  headers?: Record<string, string>;
  timeout_seconds?: number | null;
  retry?: Retry | null;
  max_per_second?: number | null;
  max_in_flight?: number | null;
  certificate?: CertificateRequest | null;
  token?: TokenSourceRequest | null;
  proxy?: ProxyRequest | null;
  cloudevents?: CloudEventsRequest | null;
}

/**
 * Only events that match all of these. `label`, `cron_id`, `destination`: those of the schedule. `key_prefix`: how the
 * schedule's own key begins. Events of destinations have a `destination`, those of crons a `cron_id`.
 */
export interface NewEventFilter {
  label?: string | null;
  key_prefix?: string | null;
  cron_id?: string | null;
  destination?: string | null;
}

/** A new key, which is shown only once. */
export interface NewKey {
  key_id: string;
  key: string;
  name: string | null;
  scope: "read" | "write" | "manage";
  created_at: string;
  expires_at: string | null;
}

/**
 * One call to make, at `due` (RFC 3339 with an offset, or a local time) or `delay_seconds` from now: exactly one of
 * them. `window_seconds`: at some instant less than this later, so that many calls are spread.
 *
 * Schedules with the same `ordering_key` are called one at a time, in order of due; with a `flow_key` only if they have
 * the same. `skip_after_seconds`: skip the call if the first attempt would start later than this after the due;
 * `late_policy` says what counts as late.
 *
 * `key`: the client's own name for it. Of the schedules put under one key, only the last is called. `latest`: however
 * often it is replaced while it waits, it is due then at the latest; the first one's counts.
 *
 * `on_success` and `on_failure`: who is told of its delivery, or of its failure, with the receiver's answer: the name
 * of a destination, or a URL.
 *
 * `succeed_within_seconds`: if it has not been delivered so long after its due, or by the instant `succeed_by`,
 * whatever the reason, the event `schedule.overdue` tells it. At most one of both; it is still called.
 */
export interface NewSchedule {
  callback: Callback;
  due?: Instant | LocalTime | null;
  delay_seconds?: number | null;
  window_seconds?: number;
  label?: string | null;
  ordering_key?: string | null;
  retry?: Retry | null;
  timeout_seconds?: number | null;
  skip_after_seconds?: number | null;
  key?: string | null;
  latest?: Instant | null;
  on_success?: string | null;
  on_failure?: string | null;
  succeed_within_seconds?: number | null;
  succeed_by?: Instant | null;
}

/**
 * A new signing secret, which is shown only once. `secret` is what receivers verify by: the secret itself, or of a key
 * pair (`scheme` v1a) the public key, which is no secret.
 */
export interface NewSigningSecret {
  secret_id: string;
  scheme: "v1" | "v1a";
  secret: string;
  created_at: string;
}

/**
 * Which of the client's events are sent where: as notices, requests with up to 100 events each, to the `destination` of
 * this name. `events`: only these types; left out: all. With `enabled` false nothing is sent, and what happens
 * meanwhile is not sent later.
 */
export interface NewSubscription {
  destination: string;
  events?: readonly EventType[];
  filter?: NewEventFilter | null;
  enabled?: boolean;
}

/** An empty object; the body may be left out. */
export interface NoRequest {
}

/**
 * A node. `state`: live, draining, left or dead. `beat_age_seconds`: seconds since this API process saw a new heartbeat
 * of it, null if it never did. `clock_offset_ms`: its wall clock minus the median, null while unknown. `pollers`: how
 * many it owns.
 */
export interface Node {
  node_id: string;
  incarnation: number;
  state: string;
  beat_age_seconds: number | null;
  pollers: number;
  clock_offset_ms: number | null;
  capacity_per_minute: number;
  weight: number;
  version: string;
  address: string;
}

/** Schedules due in the past that have not ended, without those that wait for a retry. */
export interface Overdue {
  rows: number;
  counted: number;
  estimated: number;
  exact: boolean;
  ages: OverdueAges;
  oldest: string | null;
  open_minutes: number;
}

/** Overdue schedules by how long ago they were due, in whole minutes: each counts in the first that fits. */
export interface OverdueAges {
  under_1_minute: number;
  under_10_minutes: number;
  under_1_hour: number;
  under_6_hours: number;
  under_1_day: number;
  older: number;
}

/** How fast overdue calls of all clients are made. A client's own rate holds beside it. */
export interface OverdueRate {
  overdue_per_second: number | null;
}

/** How fast overdue calls of all clients are made. */
export interface OverdueRateRequest {
  overdue_per_second: number;
}

/**
 * The settings that a client may change itself, within the operator's bounds. What is left out, or null, stays. All
 * others are what the operator gives: rates, ceilings and how long things are kept.
 */
export interface OwnSettings {
  retry?: RetrySettings | null;
  timeout_seconds?: number | null;
  hosts?: Record<string, HostLimit> | null;
  flows?: FlowRules | null;
  late_policy?: LatePolicy | null;
  in_doubt?: "drop" | "redeliver" | null;
  receiver_verbs?: readonly ("not-again" | "snooze" | "stop-cron")[] | null;
  read_consistency?: "LOCAL_ONE" | "LOCAL_QUORUM" | null;
  write_consistency?: "EACH_QUORUM" | "LOCAL_QUORUM" | null;
  event_feed?: boolean | null;
}

/**
 * All crons with this label. Those that are paused already keep their note. `dry_run`: only say which ones. Continue
 * with the cursor beside the same fields.
 */
export interface PauseManyRequest {
  label: string;
  note?: string | null;
  dry_run?: boolean;
  cursor?: string | null;
}

/**
 * Why it is paused: shown with the cron until it is resumed, and recorded in the audit log. Left out, a note that it
 * has stays.
 */
export interface PauseRequest {
  note?: string | null;
}

/**
 * A poller. All minutes before `watermark` are settled. `open_minutes`: minutes with schedules from there to now;
 * `backlog`: schedules in them that are due and have not ended. With `cut`, both are lower bounds. `lagging`: its
 * watermark is behind those of the other pollers of its owner.
 */
export interface Poller {
  poller_id: number;
  owner: PollerOwner | null;
  epoch: number;
  watermark: string;
  lagging: boolean;
  open_minutes: number;
  backlog: number;
  cut: boolean;
}

/** The node incarnation that owns a poller. */
export interface PollerOwner {
  node_id: string;
  incarnation: number;
}

/** How many pollers there are, and how many of them have a live owner. */
export interface Pollers {
  total: number;
  owned: number;
}

/** A rule to be tried out: its first `count` fires at `from` (now) or later. An interval counts from there. */
export interface PreviewRequest {
  expression: string;
  timezone: string;
  dialect?: "aws" | "cronie" | "goscheduler" | "minutehand" | "quartz" | "spring";
  also?: readonly string[];
  excluding?: readonly string[];
  calendar?: Calendar | null;
  dst?: DstRequest;
  from?: Instant | null;
  count?: number;
}

/**
 * The body of every refusal. `state`, for conflicts: the state that excludes the request. `rescheduled_to`: the
 * schedule that is called instead of the one in the path.
 */
export interface Problem {
  type: string;
  title: string;
  status: number;
  detail: string;
  request_id: string;
  state?: string | null;
  rescheduled_to?: string | null;
  errors?: Fault[];
}

/** A forward proxy that the operator allows, as http://host:port, and the credentials for it: both, or none. */
export interface ProxyRequest {
  url: string;
  username?: string | null;
  password?: string | null;
}

/** The public half of a key pair that signs a client's calls. */
export interface PublicKey {
  secret_id: string;
  public_key: string;
  created_at: string;
}

/**
 * What nodes called within about the last minute. `delivered` and `failed`: schedules that ended so. `clients`: the
 * busiest, as far as nodes count them by name. `nodes_not_answering` are missing in all figures.
 */
export interface RecentCalls {
  per_second: number;
  late: LateCalls[];
  delivered: number;
  failed: number;
  clients: CallingClient[];
  nodes_not_answering: string[];
}

/** How many of the schedules seen are due in one hour. */
export interface ReconciledHour {
  hour: string;
  schedules: number;
}

/**
 * What a reconciliation did to one schedule, in the words of its `outcomes`. `reason`, where it left it alone: the
 * state that it was in, `rescheduled`, `in-doubt`, or what made it impossible.
 */
export interface ReconciledSchedule {
  schedule_id: string;
  due: string;
  outcome: "counted" | "redelivered" | "cancelled" | "open" | "skipped" | "in-flight" | "changed" | "gone" | "refused";
  reason: string | null;
}

/**
 * One action on all schedules due from `from` to before `to` that are in one of `states` and match all `filters`, each
 * examined once.
 *
 * `seen` counts the matching schedules so far by the state in which they were found, `outcomes` the same ones by
 * result. counted: the action was report. redelivered, cancelled, skipped: by this reconciliation or by another one
 * since. open: it had been redelivered otherwise and has not ended. in-flight: a node had claimed it. changed: its
 * state had changed. gone: it was deleted. refused: it can't be handled.
 *
 * Of a report, and of one that skips, `hours` counts the same schedules by the hour of their due, and `samples` are the
 * first of them.
 */
export interface Reconciliation {
  reconciliation_id: string;
  client_id: string;
  action: "report" | "redeliver" | "cancel" | "skip";
  from: string;
  to: string;
  states: ("scheduled" | "retrying" | "awaiting" | "delivered" | "failed" | "cancelled" | "skipped")[];
  filters: Filter;
  state: "running" | "finished" | "stopped";
  progress: ReconciliationProgress;
  seen: Record<string, number>;
  outcomes: Record<string, number>;
  hours: ReconciledHour[];
  samples: string[];
  created_at: string;
  created_by: string;
  updated_at: string;
}

/** How much of the window was examined: all minutes before `through`, and a part of that one. */
export interface ReconciliationProgress {
  minutes_done: number;
  minutes_total: number;
  through: string;
}

/**
 * Count (report), redeliver, cancel or skip all schedules due from `from` to before `to` (RFC 3339 with an offset) that
 * are in one of `states` and match every filter given: a label or one of several, a cron, the destination or host of
 * the callback, the beginning of the own key. redeliver applies to delivered, failed and skipped, cancel to scheduled
 * and retrying, skip to scheduled ones that are overdue: `to` is not after now. report applies to any; with the same
 * window it shows what a skip would end.
 */
export interface ReconciliationRequest {
  label?: string | readonly string[] | null;
  cron_id?: string | null;
  destination?: string | null;
  host?: string | null;
  key_prefix?: string | null;
  from: Instant;
  to: Instant;
  states: readonly State[];
  action: Action;
}

/** The reconciliations of all clients that run, as of some seconds ago. */
export interface ReconciliationsUnderWay {
  items: Reconciliation[];
  left_out: number;
  next_cursor?: string | null;
}

/**
 * How many schedules are redelivered, and how many letters were skipped because their schedules were deleted or
 * redelivered since, or their notices have nothing to tell any more. `next_cursor` null: there are no more.
 */
export interface Redriven {
  redelivered: number;
  passed_over: number;
  items: RedrivenItem[];
  next_cursor: string | null;
}

/**
 * The result for one letter. `status`: 202 its schedule is called again; 404 it was deleted; 409 it is open or was
 * redelivered since, and `state` is its present state; with the `reason` events-gone, it is a notice whose events are
 * not kept any more.
 */
export interface RedrivenItem {
  letter_id: string;
  status: number;
  state: string | null;
  reason?: string | null;
}

/**
 * The result for one schedule. `status`: 200 `rescheduled_to` is called instead, now or since this request was made
 * first; 404 not found; 409 it stays: in flight, ended (`state` says how), in doubt (`reason`), rescheduled otherwise,
 * to `rescheduled_to`, or made by another reschedule since this request began (`reason`: rescheduled-since); 422 it
 * can't be due then (`reason`); 503 unknown, repeat the request.
 */
export interface RescheduleItem {
  schedule_id: string;
  status: number;
  state: string | null;
  reason?: string | null;
  rescheduled_to?: string | null;
}

/**
 * The new instant: `due` (RFC 3339 with an offset, or a local time) or `delay_seconds` from now, exactly one of them;
 * and a new callback, unless it stays the same.
 */
export interface RescheduleRequest {
  due?: Instant | LocalTime | null;
  delay_seconds?: number | null;
  callback?: Callback | null;
}

/**
 * All paused crons with this label; with a `note`, only those that were paused with that note. `dry_run`: only say
 * which ones. Continue with the cursor beside the same fields.
 */
export interface ResumeManyRequest {
  label: string;
  note?: string | null;
  dry_run?: boolean;
  cursor?: string | null;
}

/**
 * What a schedule asks for instead of its client's `retry` settings; None: as the client has it.
 *
 * The bounds are those of the client's own settings.
 */
export interface Retry {
  max_attempts?: number | null;
  base_seconds?: number | null;
  cap_seconds?: number | null;
  deadline_seconds?: number | null;
  final_statuses?: number[] | null;
}

/** When failed attempts are repeated: delay = min(cap, base x 2^n) with half jitter, until the deadline. */
export interface RetrySettings {
  max_attempts?: number;
  base_seconds?: number;
  cap_seconds?: number;
  deadline_seconds?: number;
  final_statuses?: number[];
}

/**
 * A schedule and its outcome so far. `nominal_due`: the instant that was asked for, or that of the cron's rule, as sent
 * to the receiver; null if it is `due`. `in_flight`: a node has claimed it and may be calling right now.
 * `redelivered_at`: when its last redelivery was requested. `rescheduled_to`: it was cancelled, and that schedule is
 * called instead.
 */
export interface Schedule {
  schedule_id: string;
  client_id: string;
  poller_id: number;
  minute: string;
  due: string;
  nominal_due: string | null;
  state: "scheduled" | "retrying" | "awaiting" | "delivered" | "failed" | "cancelled" | "skipped";
  in_flight: boolean;
  attempts: number;
  next_attempt_at: string | null;
  first_attempt_at: string | null;
  finished_at: string | null;
  last_status: number | null;
  last_error: string | null;
  reason: string | null;
  callback: SentCallback;
  label: string | null;
  ordering_key: string | null;
  key: string | null;
  latest: string | null;
  retry: Retry | null;
  timeout_seconds: number | null;
  skip_after_seconds: number | null;
  on_success: string | null;
  on_failure: string | null;
  succeed_by: string | null;
  cron_id: string | null;
  rescheduled_from: string | null;
  rescheduled_to: string | null;
  redelivered_at: string | null;
  created_at: string;
}

/**
 * What a client's key may do. Each scope includes those before it: reading; creating, cancelling and calling; managing
 * the client's own keys, secrets, settings and pauses.
 */
export type Scope = "manage" | "read" | "write";

/** How a secret is to sign. v1: HMAC-SHA256 under a secret that both sides know; v1a: Ed25519, by a key pair. */
export interface SecretRequest {
  scheme?: SignatureScheme;
}

/**
 * The request that a receiver gets, and its flow key. It goes to a `url`, or to a `destination`, with a `path` below
 * its URL; then there is no `method` if only the destination says it. Credentials among the headers are masked. `body`
 * if it is UTF-8, else `body_base64`; neither if none was given, so that the default one is sent. `headers` is null if
 * they can't be decoded or decrypted any more.
 */
export interface SentCallback {
  url?: string;
  destination?: string;
  path?: string;
  method?: string;
  headers: Record<string, string> | null;
  body?: string;
  body_base64?: string;
  flow_key?: string;
  flow_rate?: number;
  flow_parallelism?: number;
  ack?: Ack;
}

/**
 * How a signing secret signs, by the names of Standard Webhooks: V1 is HMAC-SHA256 under a secret that both sides know;
 * V1A is Ed25519, which receivers check by a public key.
 */
export type SignatureScheme = "v1" | "v1a";

/** A signing secret, without its value. `public_key`: that of a key pair (`scheme` v1a), else null. */
export interface SigningSecret {
  secret_id: string;
  scheme: "v1" | "v1a";
  public_key: string | null;
  created_at: string;
  expires_at: string | null;
}

/**
 * `scheduled` is never stored: it is the absence of an outcome. Nor is `awaiting`: it is stored as `retrying`, with the
 * reasons of `acknowledgements`.
 */
export type State = "awaiting" | "cancelled" | "delivered" | "failed" | "retrying" | "scheduled" | "skipped";

/**
 * What became of a schedule. `sentence` says it for people; it may change, the other fields are for programs. `verdict`
 * is about the first attempt: on-time, if it began within a second of its due; late; waiting, if it is not due yet;
 * overdue; or not-called. `late_seconds`: how much later than its due it began, or would begin now. `cause`: what most
 * of that time was spent on, null if that was not recorded. The key and the request id that accepted a schedule are not
 * stored.
 */
export interface Story {
  sentence: string;
  verdict: "on-time" | "late" | "waiting" | "overdue" | "not-called";
  late_seconds: number | null;
  cause: string | null;
  steps: StoryStep[];
}

/**
 * One step: when it began, and how long it took; null where that is not known. `text` is a sentence for people, which
 * may change. `cause` is that of a wait, and `behind` the schedule that came before it under its ordering key.
 */
export interface StoryStep {
  step:
    | "accepted"
    | "moved"
    | "updated"
    | "waited"
    | "claimed"
    | "attempt"
    | "redelivered"
    | "doubt"
    | "next"
    | "succeed-by"
    | "ended"
    | "told";
  at: string | null;
  seconds: number | null;
  text: string;
  cause: string | null;
  behind: string | null;
}

/** A subscription. `events` empty: all types. `changed_at`: when this `revision` was made. */
export interface Subscription {
  name: string;
  client_id: string;
  destination: string;
  events: string[];
  filter: EventFilter;
  enabled: boolean;
  revision: number;
  created_at: string;
  changed_at: string;
}

/** Where the bearer token of calls comes from. */
export interface TokenSource {
  client_id: string;
  token_url: string | null;
  issuer: string | null;
  scope: string | null;
  audience: string | null;
  authentication: "basic" | "post";
  id_token: boolean;
}

/**
 * Where the bearer token of calls comes from: the client-credentials grant of OAuth 2 (RFC 6749, 4.4), at a
 * `token_url`, or at that which the metadata of an OpenID Connect `issuer` names: exactly one of them.
 * `authentication`: how client_id and client_secret are sent there. `id_token`: calls carry the answer's id_token
 * instead of its access_token.
 */
export interface TokenSourceRequest {
  client_id: string;
  client_secret: string;
  token_url?: string | null;
  issuer?: string | null;
  scope?: string | null;
  audience?: string | null;
  authentication?: "basic" | "post";
  id_token?: boolean;
}

/** A callback to send once, now. `timeout_seconds`: the client's setting unless given. */
export interface TrialCallRequest {
  callback: Callback;
  timeout_seconds?: number | null;
}

/**
 * Seconds from the start until the name was resolved, the connection was open, TLS was established, the first byte of
 * the answer arrived, and the exchange ended. Null: that was not reached, or not needed.
 */
export interface TrialCallTimes {
  resolved_seconds: number | null;
  connected_seconds: number | null;
  secured_seconds: number | null;
  first_byte_seconds: number | null;
  ended_seconds: number;
}

/**
 * What changes of a waiting schedule; null takes a label, retry policy, time-out, `skip_after_seconds` or
 * `succeed_within_seconds` away. The instant stays unless `due` or `delay_seconds` is given; of a schedule that is
 * retried or deferred that is its next attempt, and its attempts are counted from the start.
 */
export interface UpdateRequest {
  due?: Instant | LocalTime | null;
  delay_seconds?: number | null;
  callback?: CallbackUpdate | null;
  label?: string | null;
  retry?: Retry | null;
  timeout_seconds?: number | null;
  skip_after_seconds?: number | null;
  succeed_within_seconds?: number | null;
}

/** How much later than due the first attempts began, by percentile. */
export interface UsedLateness {
  p50_seconds: number;
  p95_seconds: number;
  p99_seconds: number;
  max_seconds: number;
}

/**
 * A window by due with the filters of a listing, and one of `shift_seconds`, `due` and `delay_seconds`. Every schedule
 * in it that waits moves by `shift_seconds` (negative: earlier), or is due at `due` (RFC 3339 with an offset, or a
 * local time) or `delay_seconds` from now; with `window_seconds`, at some instant less than this later. What would be
 * due in the past is due now. `state` is scheduled or retrying; left out: both. Continue with the cursor alone.
 */
export interface WindowRescheduleRequest {
  label?: string | readonly string[] | null;
  cron_id?: string | null;
  destination?: string | null;
  host?: string | null;
  key_prefix?: string | null;
  state?: State | readonly State[] | null;
  from?: Instant | null;
  to?: Instant | null;
  shift_seconds?: number | null;
  due?: Instant | LocalTime | null;
  delay_seconds?: number | null;
  window_seconds?: number | null;
  cursor?: string | null;
}

export interface ListSchedulesQuery {
  /** The first due to list. Left out: now. */
  from?: Instant;
  /** The first due not to list. Left out: 24 hours after `from`. */
  to?: Instant;
  /** Only schedules in this state. May be repeated: then any of these. */
  state?: State | readonly State[];
  /** Only schedules with this label. May be repeated: then any of these. */
  label?: string | readonly string[];
  /** Only the runs of this cron. */
  cron_id?: string;
  /** Only calls to the destination of this name. */
  destination?: string;
  /** Only calls to this host: a name or an address as in a URL, without port. */
  host?: string;
  /** Only schedules whose own key begins with this. */
  key_prefix?: string;
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface CountSchedulesQuery {
  /** The first due to count. Left out: now. */
  from?: Instant;
  /** The first due not to count. Left out: 24 hours after `from`. */
  to?: Instant;
  /** Only schedules in this state. May be repeated: then any of these. */
  state?: State | readonly State[];
  /** Only schedules with this label. May be repeated: then any of these. */
  label?: string | readonly string[];
  /** Only the runs of this cron. */
  cron_id?: string;
  /** Only calls to the destination of this name. */
  destination?: string;
  /** Only calls to this host: a name or an address as in a URL, without port. */
  host?: string;
  /** Only schedules whose own key begins with this. */
  key_prefix?: string;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface ListDeadLettersQuery {
  /** The first `failed_at` to list. Left out: 24 hours before `to`. */
  from?: Instant;
  /**
   * The first `failed_at` not to list, at most 24 hours after `from`. Left out: now or, if that is earlier, 24 hours
   * after `from`.
   */
  to?: Instant;
  /** List only calls to this host, without port. */
  host?: string;
  /** List only calls to the destination of this name. */
  destination?: string;
  /** List only those whose last attempt was answered with this HTTP status, or one of a class: 5xx. */
  status?: string;
  /** List only those that ended for this reason, such as `exhausted`. */
  reason?: string;
  /** List only those whose last attempt failed with this error, such as `timeout`. */
  error?: string;
  /** List only schedules with this label. */
  label?: string;
  /** Whether to list those that are acknowledged. Left out: `false`. */
  acknowledged?: boolean | "any";
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface ListCronsQuery {
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface ListRunsQuery {
  /** The first nominal instant to list. Left out: a day ago; with `order` newest, 30 days before `to`. */
  from?: Instant;
  /**
   * The first nominal instant not to list, at most 31 days after `from` and five years ahead. Left out: a day after now
   * or, if that is later, after `from`; with `order` newest, now, unless `from` is later.
   */
  to?: Instant;
  /**
   * `oldest`: by nominal instant, planned fires included. `newest`: the other way round, only runs that have a
   * schedule, of those to come only what is before a given `to`. Left out: `oldest`.
   */
  order?: "oldest" | "newest";
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface DeleteDestinationQuery {
  /** Delete it even if crons or waiting schedules name it: their calls fail then, with a reason that says so. */
  force?: boolean;
}

export interface GetBalanceQuery {
  /** The first instant whose minute is shown. Left out: an hour ago. */
  from?: Instant;
  /**
   * The first instant whose minute is not shown, at most 24 hours after `from`; cut minutes are counted whole. Left
   * out: now or, if that is not later, an hour after `from`.
   */
  to?: Instant;
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface ListReconciliationsQuery {
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface ListReconciledSchedulesQuery {
  /** List only schedules with this outcome. */
  outcome?: "counted" | "redelivered" | "cancelled" | "open" | "skipped" | "in-flight" | "changed" | "gone" | "refused";
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface GetUsageQuery {
  /** The first day that is shown, in UTC. Left out: seven days before `to`. */
  from?: string;
  /**
   * The first day that is not shown, at most 31 days after `from`. Left out: tomorrow or, if that is not later, the day
   * after `from`.
   */
  to?: string;
}

export interface ListEventsQuery {
  /** A cursor: only what follows it. `earliest`: all that is kept. Left out: only what comes from now on. */
  after?: string;
  /** Instead of `after`: what was appended from this instant on. Some earlier events may come too. */
  since?: Instant;
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /**
   * The pollers whose events are read, for clients with more than 64: one reader for each range. Events that are not of
   * a poller come with poller 0. Left out: 0-63.
   */
  pollers?: string;
}

export interface ListAuditsQuery {
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface ListAuditLogQuery {
  /** The first instant to list. Left out: 24 hours before `to`. */
  from?: Instant;
  /**
   * The first instant not to list, at most 31 days after `from`. Left out: now or, if that is earlier, 31 days after
   * `from`.
   */
  to?: Instant;
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface ListClientAuditLogQuery {
  /** The first instant to list. Left out: 24 hours before `to`. */
  from?: Instant;
  /**
   * The first instant not to list, at most 31 days after `from`. Left out: now or, if that is earlier, 31 days after
   * `from`.
   */
  to?: Instant;
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface DrainNodeQuery {
  /** Drain even if no other node takes pollers, so that no calls are made. */
  force?: boolean;
}

export interface GetForecastQuery {
  /** The first instant whose minute is shown. Left out: now. */
  from?: Instant;
  /**
   * The first instant whose minute is not shown, at most 31 days after `from`; cut minutes are counted whole. Left out:
   * 24 hours after `from`.
   */
  to?: Instant;
}

export interface GetClusterForecastQuery {
  /** The first instant whose minute is shown. Left out: now. */
  from?: Instant;
  /**
   * The first instant whose minute is not shown, at most 31 days after `from`; cut minutes are counted whole. Left out:
   * 24 hours after `from`.
   */
  to?: Instant;
}

export interface GetClusterBacklogQuery {
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface ListReconciliationsUnderWayQuery {
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}

export interface ListLatestAuditsQuery {
  /** Most items to list. A page may have fewer. */
  limit?: number;
  /** `next_cursor` of the previous page. It contains the list's parameters: others given with it must agree. */
  cursor?: string;
}
