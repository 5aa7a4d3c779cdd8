// Small enhancements; every page works without them.

// Sections with data-refresh="SECONDS" are fetched again and replaced in place, while the page is visible and nothing
// in them is being used, until one comes without it: it shows what does not change by itself any more.
for (const section of document.querySelectorAll("[data-refresh]")) {
  let known = new Date();
  const stale = Object.assign(document.createElement("p"), { className: "stale", hidden: true });
  stale.role = "status";
  document.body.append(stale);
  const again = async () => {
    const used = section.contains(document.activeElement) || section.querySelector("details[open]");
    if (document.hidden || used) return;
    try {
      const answer = await fetch(location.href, { credentials: "same-origin" });
      if (answer.redirected) return location.reload();
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(section.id);
      if (!fresh) throw new Error(answer.status);
      const places = Array.from(section.querySelectorAll(".scroll"), (one) => one.scrollLeft);
      section.replaceChildren(...fresh.childNodes);
      section.querySelectorAll(".scroll").forEach((one, at) => { one.scrollLeft = places[at] ?? 0; });
      known = new Date();
      stale.hidden = true;
      if (!fresh.dataset.refresh) clearInterval(timer);
    } catch {
      // The next time may find the API again; the page shows what it knew.
      const text = `The API does not answer: this is as of ${known.toISOString().slice(11, 19)} UTC.`;
      if (stale.textContent !== text) stale.textContent = text;
      stale.hidden = false;
    }
  };
  const timer = setInterval(again, Number(section.dataset.refresh) * 1000);
}

// On a narrow screen the tabs of a client are one line; the current one is seen.
const current = document.querySelector(".client [aria-current]");
if (current) {
  const tabs = current.closest("ul");
  tabs.scrollLeft = current.offsetLeft - tabs.offsetLeft - (tabs.clientWidth - current.offsetWidth) / 2;
}

// One menu is open at a time; Escape closes it and goes back to its button.
document.addEventListener("toggle", (event) => {
  if (!event.target.matches?.("details.menu") || !event.target.open) return;
  for (const other of document.querySelectorAll("details.menu[open]")) if (other !== event.target) other.open = false;
}, true);
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  for (const menu of document.querySelectorAll("details.menu[open]")) {
    menu.open = false;
    menu.querySelector("summary").focus();
  }
});

// A table of rows to select has one checkbox for all of them.
for (const table of document.querySelectorAll("table[data-select]")) {
  const boxes = table.querySelectorAll("tbody input[type=checkbox]");
  if (!boxes.length) continue;
  const all = Object.assign(document.createElement("input"), { type: "checkbox", ariaLabel: "Select all on this page" });
  all.addEventListener("change", () => { for (const box of boxes) box.checked = all.checked; });
  table.querySelector("thead th").append(all);
}

// The live tail: rows are added above as events arrive. A stream that is cut off goes on from its last event.
const ROWS = 500;
for (const body of document.querySelectorAll("[data-events]")) {
  const live = document.getElementById("live");
  const source = new EventSource(body.dataset.events);
  source.addEventListener("begin", () => { live.textContent = "Live: new events are added above."; });
  source.addEventListener("error", () => {
    live.textContent = source.readyState === EventSource.CLOSED
      ? "Not connected any more: open the page again." : "Not connected; trying again.";
  });
  const add = (message) => {
    const event = JSON.parse(message.data);
    const row = body.insertRow(0);
    const cell = (text) => { row.insertCell().textContent = text ?? ""; };
    const at = Object.assign(document.createElement("time"), { dateTime: event.at, textContent: event.at.slice(11, 23) });
    at.title = `${event.at.replace("T", " ")} UTC`;
    row.insertCell().append(at);
    cell(event.type);
    const link = document.createElement("a");
    if (event.schedule_id) {
      link.href = body.dataset.schedules + event.schedule_id;
      link.textContent = event.data.key ?? event.schedule_id;
    }
    row.insertCell().append(link);
    cell(event.data.last_status);
    cell(event.data.reason ?? event.data.last_error);
    while (body.rows.length > ROWS) body.deleteRow(-1);
  };
  for (const type of body.dataset.types.split(" ")) source.addEventListener(type, add);
}

// Times of the viewer's zone.
const viewer = new Intl.DateTimeFormat("en-GB", { weekday: "short", day: "2-digit", month: "short", year: "numeric",
  hour: "2-digit", minute: "2-digit", timeZoneName: "short" });
const showViewers = (within) => {
  for (const time of within.querySelectorAll("time[data-viewer]")) {
    time.textContent = viewer.format(new Date(time.dateTime)).replaceAll(",", "");
  }
};
showViewers(document);

// A form with data-preview="ID" shows that part of its answer while it is typed in, as its button for a preview does.
for (const form of document.querySelectorAll("form[data-preview]")) {
  const shown = document.getElementById(form.dataset.preview);
  let timer, asked = 0;
  const preview = async () => {
    const mine = ++asked;
    const fields = new URLSearchParams(new FormData(form));
    fields.set("act", "preview");
    try {
      const answer = await fetch(form.action, { method: "POST", body: fields, credentials: "same-origin" });
      const fresh = new DOMParser().parseFromString(await answer.text(), "text/html").getElementById(shown.id);
      if (!fresh || mine !== asked) return;
      showViewers(fresh);
      shown.replaceChildren(...fresh.childNodes);
    } catch {
      // The button still asks.
    }
  };
  form.addEventListener("input", () => { clearTimeout(timer); timer = setTimeout(preview, 400); });
}
