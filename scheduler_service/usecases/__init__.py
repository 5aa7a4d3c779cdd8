"""Use cases: one module for each noun, or for each verb of schedules.

    create_schedules schedule_request      a request becomes a row; the rules it must satisfy
    deadline_request end_receivers         the parts of it about success deadlines, and who is told of an end
    schedule_writer create_traces          the one way to create a row; its trace
    schedule_keys key_chain                schedules under a client's own keys; what a key names
    list_schedules show_attempts           a window by due time; the attempts of one schedule
    explain_schedule                       the story of one schedule
    filter_request reading_steps           filters in a request's body; how many rows a step reads
    cancel_schedules                       decides a cancel
    resolve_schedule                       the present state of one schedule
    schedule_update reschedule_schedule    what an update asks; updates and reschedules are made
    reschedule_window complete_reschedule  many at once; finishes reschedules that were cut short
    redeliver                              calls a schedule that has ended again
    acknowledge                            what a receiver says later of a call that it took
    dead_letters redeliver_notices         what failed for good: listed, acknowledged, redriven; notices among it
    idempotency                            creates, redeliveries, reschedules under an idempotency key
    reconciliations reconcile              a durable request about a window; the slices that do its work
    reconciliations_under_way              those of all clients that run
    cron_request rule_request              what a cron and its rule must satisfy
    crons cron_counts                      a cron is stored, within the client's maximum
    expand_crons trigger_crons show_crons  fires become rows; a run on demand; crons and runs are listed
    backfill_crons                         fires of the past that were not made
    pause_crons pause_failing_crons        crons are paused by their label, or because their runs fail
    destinations destination_request       where calls go: stored; judged, with `client_certificates`
    named_destinations destination_users   which of them callbacks may name; what names one
    destination_figures recent_calls       what became of a destination's calls, and of all calls, asked of the nodes
    asked_nodes                            a question to the present nodes
    read_events subscriptions              a client's feed; which of its events are sent where
    backlog open_minutes held_back         what is overdue; unsettled minutes; whose receivers get no calls
    forecast minute_loads                  what is to come; what minutes hold
    clients keys signing_secrets           registration, suspension, deletion; bearer keys; signatures
    revised_rows                           how clients, destinations and subscriptions are changed
    public_keys                            what anybody may know of a client's key pairs
    key_ring sealed_texts sealed_headers secret_encryption    secrets, headers and destinations at rest
    sessions                               the console's: a key, or a person, for a token
    overdue_rate tell_audits               the rate of overdue calls; findings of audits as events
    authenticate key_uses admission        who is calling, from memory; last uses of keys; may this client create now
    members cluster                        the reader of heartbeats; the operator's view, drains of nodes
    shared_looks                           one read of storage for several callers
    balance reports storage_probes         the books; results of jobs; health of storage and audits
    latest_audits                          the newest audit of each client
    audit_log trial_call bulk_load         actions of administrators; one call to look at; loads of a Spark job

Every route calls a use case and never a port, even to read: what is found, hidden or missing is decided here.

Use cases speak to `domain.ports`, take time and randomness through their constructors, and know nothing of HTTP or CQL.
They raise `domain.errors`: either the request can't be done (Invalid, NotFound, Conflict, ClientSuspended), or it may
be repeated (StoreUnavailable, after which a write may still have taken effect; ClockInDoubt; NodeUnreachable). Every
verb here may be repeated.
"""
