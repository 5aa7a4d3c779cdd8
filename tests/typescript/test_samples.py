"""Each sample of the TypeScript SDK compiles, and sends what the sample of curl sends; one Node process sends all."""

import asyncio
import json
import shlex
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from scheduler_service.api.openapi.examples import EXAMPLES
from scheduler_service.api.openapi.samples import SDK, curl_line, typescript_line
from tests.support.generators import TYPESCRIPT_FILES
from tests.support.sample_requests import BY_ID, GIVEN_BY_THE_SDK, asked
from tests.typescript.conftest import run

PROGRAM = """\
import { Conflict, Minutehand } from "minutehand";

interface Sent { method: string; url: string; body: unknown; type: string | null }
const problem = { type: "/problems/conflict", title: "recorded", status: 409, detail: "recorded", request_id: "1" };
let sent: Sent[] = [];
const api = new Minutehand("http://api.example", "the-key", {
  retries: 0,
  fetch: async (url, init) => {
    const body: unknown = typeof init.body === "string" ? JSON.parse(init.body) : null;
    sent.push({ method: init.method ?? "", url, body, type: new Headers(init.headers).get("content-type") });
    const headers = { "Content-Type": "application/problem+json" };
    return new Response(JSON.stringify(problem), { status: 409, headers });
  },
});
const samples: Record<string, () => Promise<unknown>> = {
%s
};
const all: Record<string, Sent[]> = {};
for (const [id, sample] of Object.entries(samples)) {
  sent = all[id] = [];
  await sample().then(
    () => { throw new Error(`${id} was not refused`); },
    (error: unknown) => { if (!(error instanceof Conflict)) throw error; },
  );
}
console.log(JSON.stringify(all));
"""


def line_of(id_: str) -> str:
    parts, _, body = asked(BY_ID[id_])
    line = typescript_line(id_, path=parts, query=EXAMPLES[id_].query, body=body)
    assert line is not None
    return line


@pytest.fixture(scope="module")
def sent(package: Path) -> dict[str, list[dict[str, Any]]]:
    """What each sample sends."""
    lines = (f"  {id_}: async () => {line_of(id_)}," for id_ in SDK)
    (package / "samples.ts").write_text(PROGRAM % "\n".join(lines))
    options = json.loads((TYPESCRIPT_FILES / "tsconfig.json").read_text())["compilerOptions"]
    kept = {name: value for name, value in options.items() if name not in ("rootDir", "outDir", "declaration")}
    (package / "tsconfig.samples.json").write_text(json.dumps({"compilerOptions": kept, "files": ["samples.ts"]}))
    asyncio.run(run("node_modules/.bin/tsc", "--project", "tsconfig.samples.json", cwd=package))
    printed: dict[str, list[dict[str, Any]]] = json.loads(asyncio.run(run("node", "samples.js", cwd=package)))
    assert printed.keys() == SDK.keys()
    return printed


@pytest.mark.parametrize("id_", sorted(SDK))
def test_both_send_the_same(id_: str, sent: dict[str, list[dict[str, Any]]]) -> None:
    route = BY_ID[id_]
    _, path, body = asked(route)
    curl = shlex.split(curl_line(route.method, path, body=body).replace("\\\n", ""))
    wanted = urlsplit(next(word for word in curl if word.startswith("$API")).removeprefix("$API"))
    [request] = sent[id_]
    url = urlsplit(request["url"].removeprefix("http://api.example"))
    assert (request["method"], url.path) == (route.method, wanted.path)
    given = [(name, value) for name, value in parse_qsl(url.query) if name not in GIVEN_BY_THE_SDK]
    assert sorted(given) == sorted(one for one in parse_qsl(wanted.query) if one[0] not in GIVEN_BY_THE_SDK)
    assert (request["body"], request["type"]) == (body, None if body is None else "application/json")
