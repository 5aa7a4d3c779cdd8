"""Imports: what other schedulers have, as crons and schedules of a client.

    a file of the source --reader--> entries, faults --meaning--> words, next fires --apply--> the client's own API

A reader is pure: from the text of a file to entries, and to a fault for each thing that can't be one. It changes
nothing of what is said; what has no counterpart here is a note that the user reads before anything is stored.

An entry gets an id that derives from its name in the source, or from its line where it has none. So an import is
repeated freely: what is there already and equal stays, what has changed in the source is replaced.

Nothing here runs commands. A line of a crontab or a job of Kubernetes becomes a call that carries the command as JSON;
the service that gets it decides what to do.
"""
