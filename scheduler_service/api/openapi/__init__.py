"""The API described: an OpenAPI 3.1 document made from the route table, and the page made from that document.

    resources.ROUTES ----\\
    types of bodies ------> document -> /openapi.json
    problems.KINDS ------/       \\
    examples -----------/         `---> docs_page -> /docs

Nothing is written twice. Schemas come from the very types that decode requests and encode answers, query parameters
from the declarations that read them, problems from what an operation's access, path, body and row of the table say
(`answers`). Only examples are written by hand: a test sends every one and compares what comes back.

Both are made once, when the application is built, and are the same bytes for everybody.
"""
