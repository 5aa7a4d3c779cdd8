"""One random world: processes, clocks, storage, receivers, clients and administrators do what a seed draws.

    setting        how this world is: nodes, clients, their settings, how faulty its network is      (`setting`)
    operations     what happens, and after how long                                                  (`operations`)
    performing     carries an operation out: `processes` fail, `clients` and `administrators` ask    (`performing`)
    promises       what must hold at every call, after every operation, and when all is well again   (`promises`)
    troubles       when something outside Minutehand kept calls from being made in time              (`troubles`)

Everybody who asks goes through an API process: the real use cases over a faulty connection of its own, with its own
clock, its own view of the members and its own cache of clients. A request that gets no answer within the API's limit is
cancelled where it stands, as the server does; some callers ask again, others never do.

Excuses are explicit: a promise that faults outside Minutehand suspend (a clock that nobody can contradict, a time
during which no node could act) names the fault, and its record says from when to when.
"""
