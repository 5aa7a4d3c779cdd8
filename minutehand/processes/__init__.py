"""Processes of one machine under a parent: started, looked after, asked for their health, ended with it.

`several` is what `--processes N` of a server does: `workers` starts N of them and starts those that end again, and
`health` answers for all. `children` ties a process to the program that starts it, by `supervisor` between the two, and
`identity` tells a process from a later one of the same pid. `programs` are servers that the demo, the bench and the
tests start.
"""
