"""Child processes on one machine: start, watch over, report health, end with their parent.

`several` implements `--processes N`: `workers` starts N processes and restarts those that end, and `health` answers for
all of them. `children` ties a process to the program that starts it, with `supervisor` between the two, and `identity`
tells a process from a later one with the same pid. `programs` are servers started by the demo, the bench and the tests.
"""
