// Minutehand's SDK for TypeScript. `minutehand/webhooks` checks who is calling.

export { ClientScope } from "./client-scope.js";
export { Crons } from "./crons.js";
export { DeadLetters } from "./dead-letters.js";
export { Destinations, Subscriptions } from "./destinations.js";
export {
  Conflict,
  Forbidden,
  InvalidRequest,
  MinutehandApiError,
  MinutehandError,
  MinutehandUnreachable,
  NotFound,
  PreconditionFailed,
  TooManyRequests,
  Unauthorized,
  Unavailable,
} from "./errors.js";
export { Feed, type Following } from "./events.js";
export { Keys, SigningSecrets } from "./keys.js";
export { AdminKeys, Clients, Minutehand, type MinutehandOptions, Nodes } from "./minutehand.js";
export type { Absent, AtRevision, Keyed, Matching, Sending } from "./operation.js";
export { Pages } from "./pages.js";
export { Reconciliations } from "./reconciliations.js";
export type { Runtime } from "./retries.js";
export { Schedules, type TaggedSchedule } from "./schedules.js";
export type { Fetch } from "./sender.js";
export type * from "./types.js";
