// Filters the contents by what is typed: by names, and where those are few, by what is written below them. Marks in the
// contents what is being read, and shows all samples in the language that is chosen at one. Without it, the box stays
// hidden.
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
  const words = box.value.toLowerCase().split(/\s+/).filter(Boolean);
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
