"""One random world, in which a seed draws what processes, clocks, storage, receivers, clients and administrators do.

    setting        the world's properties: nodes, clients, their settings, how faulty its network is   (`setting`)
    operations     what happens, and after how long                                                    (`operations`)
    performing     carries an operation out: `processes` fail, `clients` and `administrators` ask      (`performing`)
    destinations   those that callbacks name, and what their changes mean for calls                    (`destinations`)
    promises       what must hold at every call, after every operation, and when all faults are over   (`promises`)
    troubles       when something outside Minutehand kept calls from being made in time                (`troubles`)

All requests go through an API process: the real use cases over a faulty connection of its own, with its own clock, view
of the members and cache of clients. A request without an answer within the API's limit is cancelled, as the server
does; some callers repeat it, others never do.

Excuses are explicit: a promise that faults outside Minutehand suspend (a clock that no other contradicts, a time in
which no node could act) names the fault, and its record says from when to when.
"""
