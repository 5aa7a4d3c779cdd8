"""The description of the API: an OpenAPI 3.1 document made from the route table, and a page made from the document.

    resources.ROUTES ----\\
    types of bodies ------> document -> /openapi.json
    problems.KINDS ------/       \\
    examples ------------/        `---> docs_page -> /docs

Nothing is written twice. Schemas come from the types that decode requests and encode answers, query parameters from
the declarations that read them, problems from an operation's access, path, body and row of the route table (`answers`).
Only examples are written by hand: a test sends each of them and compares the answer.

Both are made once, when the application is built, and are the same bytes for every caller.
"""
