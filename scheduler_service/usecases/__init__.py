"""A module a noun, or a verb of schedules; `schedule_writer` is the one way to create rows.

    clients                      a client's life            keys signing_secrets   what it is known and signs by
    create_schedules             a request becomes a row    edit_schedule          cancel, and what a row is now
    list_schedules               a window by due time       authenticate           who calls, from memory
    cron_request -> crons        a rule comes to be         expand_crons           its fires become rows
    show_crons                   crons and their runs       admission              may this client create now
    members                      the reader of heartbeats   cluster                the operator's view, drains of nodes
    reports                      usage and audits of the books

Every route calls use cases and no port, also where one only reads: what is found, hidden or missing is decided here.

Use cases speak to `domain.ports`, take time and randomness through their constructors, and know nothing of HTTP or CQL.
They raise `domain.errors`: what can't be done as asked (Invalid, NotFound, Conflict, ClientSuspended) and what may be
tried again (StoreUnavailable: a write may have taken effect all the same, and every verb here may be repeated;
ClockInDoubt, NodeUnreachable).
"""
