"""Use cases: one module for each noun, or for each verb of schedules.

    create_schedules schedule_request    a request becomes a row; the rules it must satisfy
    schedule_writer                      the one way to create a row
    list_schedules show_attempts         a window by due time; the attempts of one schedule
    cancel_schedules                     decides a cancel
    resolve_schedule                     the present state of one schedule
    reschedule_schedule redeliver        call at another instant; call again what has ended
    dead_letters                         what failed for good: listed, redriven
    complete_reschedule                  finishes reschedules that were cut short
    idempotency                          creates, redeliveries, reschedules under an idempotency key
    reconciliations reconcile            a durable request about a window; the slices that do its work
    cron_request crons cron_counts       a rule is judged and stored, within the client's maximum
    expand_crons show_crons              fires become rows; crons and their runs are listed
    destinations destination_request     where calls go: judged and stored
    destination_users client_certificates    who names one; certificates that calls present
    clients keys signing_secrets         registration, suspension, deletion; bearer keys; signatures
    key_ring sealed_texts sealed_headers secret_encryption    secrets, headers and destinations at rest
    authenticate key_uses admission      who is calling, from memory; last uses of keys; may this client create now
    members cluster                      the reader of heartbeats; the operator's view, drains of nodes
    balance reports storage_probes       the books; results of jobs; health of storage and audits
    audit_log trial_call bulk_load       actions of administrators; one call to look at; loads of a Spark job

Every route calls a use case and never a port, even to read: what is found, hidden or missing is decided here.

Use cases speak to `domain.ports`, take time and randomness through their constructors, and know nothing of HTTP or CQL.
They raise `domain.errors`: either the request can't be done (Invalid, NotFound, Conflict, ClientSuspended), or it may
be repeated (StoreUnavailable, after which a write may still have taken effect; ClockInDoubt; NodeUnreachable). Every
verb here may be repeated.
"""
