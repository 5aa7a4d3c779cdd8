"""HTML pages: a frame, one inline style sheet, at most one inline script, and headers that allow nothing else."""

import base64
import hashlib
import re
from collections.abc import Mapping
from html import escape
from typing import Final

HTML: Final = "text/html; charset=utf-8"
TEXT: Final = "text/plain; charset=utf-8"

SAMPLES_STYLE: Final = """
.samples { border: 0; margin: .75rem 0; padding: 0; min-width: 0; }
.samples legend { font-size: .95rem; font-weight: 700; padding: 0; margin-bottom: .25rem; }
.samples input { position: absolute; opacity: 0; }
.samples label { display: inline-block; padding: .15rem .7rem; margin-right: .25rem; cursor: pointer;
  border-bottom: 3px solid transparent; }
.samples input:checked + label { border-color: var(--mark); font-weight: 700; }
.samples input:focus-visible + label { outline: 2px solid var(--mark); }
.samples pre { display: none; margin-top: 0; }
.samples input:nth-of-type(1):checked ~ pre:nth-of-type(1), .samples input:nth-of-type(2):checked ~ pre:nth-of-type(2),
.samples input:nth-of-type(3):checked ~ pre:nth-of-type(3), .samples input:nth-of-type(4):checked ~ pre:nth-of-type(4) {
  display: block; }
.wide { overflow-x: auto; }
.wide td:first-child code { overflow-wrap: normal; white-space: nowrap; }
@media (max-width: 30rem) { .wide table { min-width: 32rem; } }
"""
"""Of samples as tabs, which need no script: the block is shown whose radio button is checked. Up to four languages.
Needs the colour `--mark`."""
_STYLE: Final = (
    """
:root { color-scheme: light dark; --ink: #1b1f24; --dim: #59636e; --line: #d5dae0; --ground: #fff; --box: #f5f7f9;
  --mark: #0b57a4; }
@media (prefers-color-scheme: dark) { :root { --ink: #dfe4ea; --dim: #98a3b0; --line: #343b44; --ground: #14171b;
  --box: #1d2229; --mark: #7db8f5; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 66rem; padding: 1.5rem; color: var(--ink); background: var(--ground);
  font: 1rem/1.5 system-ui, sans-serif; }
h1, h2, h3, h4 { line-height: 1.25; margin: 2rem 0 .5rem; }
h2 { border-bottom: 1px solid var(--line); padding-bottom: .25rem; }
h4 { margin: 1rem 0 .25rem; font-size: .95rem; }
p { margin: .5rem 0; }
a { color: var(--mark); }
code, pre { font: .875rem/1.45 ui-monospace, monospace; }
code { overflow-wrap: anywhere; }
pre { background: var(--box); border: 1px solid var(--line); border-radius: .3rem; padding: .6rem .8rem;
  overflow: auto; }
table { border-collapse: collapse; width: 100%; }
th, td { text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line); }
th { color: var(--dim); font-weight: 600; }
section.operation { margin: 1.25rem 0; padding: .25rem 1rem .75rem; border: 1px solid var(--line);
  border-radius: .4rem; }
section.operation h3 { margin: .6rem 0 .25rem; }
section:target { border-color: var(--mark); }
.method { display: inline-block; min-width: 4.5rem; color: var(--mark); font-weight: 700; }
.dim { color: var(--dim); }
nav ul { list-style: none; padding-left: .6rem; margin: .25rem 0; }
nav summary { cursor: pointer; font-weight: 600; }
nav a { display: block; padding: .1rem .5rem; border-left: 3px solid transparent; text-decoration: none; }
nav a:hover { text-decoration: underline; }
nav a[aria-current] { border-color: var(--mark); background: var(--box); font-weight: 600; }
.up { position: fixed; right: 1rem; bottom: 1rem; padding: .4rem .8rem; background: var(--box);
  border: 1px solid var(--line); border-radius: .3rem; }
#search { font: inherit; width: 100%; padding: .3rem .5rem; margin: .5rem 0; color: inherit; background: var(--ground);
  border: 1px solid var(--dim); border-radius: .3rem; }
@media (min-width: 64rem) {
  body.beside { max-width: 88rem; display: grid; grid-template-columns: 19rem minmax(0, 1fr); gap: 2.5rem; }
  .beside nav { position: sticky; top: 0; max-height: 100vh; overflow: auto; padding: 1rem 0; font-size: .9rem; }
  .up { display: none; }
}
@media (max-width: 30rem) { body { padding: 1rem; } section.operation { padding: .25rem .6rem .75rem; } }
"""
    + SAMPLES_STYLE
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
SEARCH: Final = """
const box = document.getElementById("search"), groups = [...document.querySelectorAll("nav details")];
const wide = matchMedia("(min-width: 64rem)"), opened = new Map(groups.map((group) => [group, group.open]));
const links = new Map([...document.querySelectorAll("nav li a")].map((link) => [link.hash.slice(1), link]));
const texts = new Map();
const place = (link) => document.getElementById(link.hash.slice(1));
const named = (link) => (link.textContent + " " + (link.parentNode.dataset.words ?? "")).toLowerCase();
const written = (link) => {
  if (!texts.has(link)) texts.set(link, place(link).textContent.toLowerCase());
  return texts.get(link);
};
const show = (words, hits) => {
  let all = 0;
  for (const group of groups) {
    let found = 0;
    for (const link of group.querySelectorAll("li a")) {
      const hit = hits(link);
      link.parentNode.hidden = !hit;
      found += hit;
    }
    group.hidden = !found;
    group.open = words.length ? found > 0 : wide.matches && opened.get(group);
    all += found;
  }
  return all;
};
const search = () => {
  const words = box.value.toLowerCase().split(/\\s+/).filter(Boolean);
  const name = (link) => words.every((word) => named(link).includes(word));
  const phrase = (link) => name(link) || written(link).includes(words.join(" "));
  const anywhere = (link) => words.every((word) => written(link).includes(word));
  let found = show(words, name);
  if (found < 5) found = show(words, phrase) || show(words, anywhere);
  document.getElementById("found").textContent = words.length ? `${found} found` : "";
};
box.hidden = false;
box.addEventListener("input", search);
show([], () => true);

const mark = (id) => {
  const link = links.get(id), before = document.querySelector("nav a[aria-current]");
  if (!link || link === before) return;
  before?.removeAttribute("aria-current");
  link.setAttribute("aria-current", "location");
  if (wide.matches) link.scrollIntoView({block: "nearest"});
};
const seen = new IntersectionObserver((entries) => {
  for (const entry of entries) if (entry.isIntersecting) mark(entry.target.id);
}, {rootMargin: "-15% 0px -80% 0px"});
for (const link of links.values()) seen.observe(place(link));

document.addEventListener("change", (event) => {
  const language = event.target.dataset.language;
  if (!language) return;
  const top = event.target.getBoundingClientRect().top;
  for (const other of document.querySelectorAll(".samples input"))
    if (other.dataset.language === language) other.checked = true;
  scrollBy({top: event.target.getBoundingClientRect().top - top, behavior: "instant"});
});
"""
"""Filters the contents by what is typed: by names, and where those are few, by what is written below them. Marks in the
contents what is being read, and shows all samples in the language that is chosen at one. Without it, the box stays
hidden."""
_SEARCH_HASH: Final = base64.b64encode(hashlib.sha256(SEARCH.encode()).digest()).decode()


def _headers(scripts: str) -> Mapping[str, str]:
    return {
        "Content-Security-Policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; {scripts}base-uri 'none'; "
        "form-action 'none'; frame-ancestors 'none'",
        "X-Content-Type-Options": "nosniff",
        "Referrer-Policy": "no-referrer",
    }


PAGE_HEADERS: Final = _headers("")
"""These allow the style sheet above and no script, picture, font, form or frame from any origin."""
SEARCHED_HEADERS: Final = _headers(f"script-src 'sha256-{_SEARCH_HASH}'; ")
"""They also allow the script above."""

_CODE = re.compile(r"`([^`]+)`")
_LINK = re.compile(r"\[([^\]]+)\]\((https://[^)\s]+)\)")


def page(title: str, body: str, *, beside: str = "") -> str:
    """A whole page. `body` is HTML; so is `beside`, the contents on its left, which can be searched."""
    if beside:
        body = f"{beside}\n<main>\n{body}\n</main>\n<script>{SEARCH}</script>"
    kind = ' class="beside"' if beside else ""
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n<title>{escape(title)}</title>\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<style>{_STYLE}</style>\n</head>\n<body{kind}>\n{body}\n</body>\n</html>\n"
    )


def prose(text: str) -> str:
    """HTML of a description: paragraphs with `code` and [links](https://...)."""
    paragraphs = [part.strip() for part in text.split("\n\n")]
    return "".join(f"<p>{inline(part)}</p>\n" for part in paragraphs if part)


def inline(text: str) -> str:
    marked = _CODE.sub(r"<code>\1</code>", escape(text))
    return _LINK.sub(r'<a href="\2">\1</a>', marked)
