// What a page does beyond showing itself: it stays up to date, shows times in the reader's zone, and follows keys.
"use strict";

const base = document.body.dataset.base;

// Times: the exact one of the reader's zone on hover, and "3 min ago" that goes on.
const exact = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
const clock = new Intl.DateTimeFormat(undefined, { timeStyle: "short" });
const steps = [[1000, " ms", 1], [10e3, " s", 1e3, 1], [120e3, " s", 1e3], [7200e3, " min", 60e3], [172800e3, " h", 3600e3], [Infinity, " days", 86400e3]];

function roughly(ms) {
  const [, unit, size, digits] = steps.find(([most]) => ms < most);
  return (ms / size).toFixed(digits || 0) + unit;
}

function times(root) {
  for (const t of root.querySelectorAll("time")) {
    const at = Date.parse(t.dateTime);
    t.title = exact.format(at);
    if ("clock" in t.dataset) { t.textContent = clock.format(at); continue; }
    const past = Date.now() - at;
    t.textContent = past < 0 ? "in " + roughly(-past) : roughly(past) + " ago";
  }
}

// Live: the server says when a page may have changed; what has is put in its place. What somebody has unfolded stays
// so, and nothing moves under a hand that is just filling a form.
const folded = (d) => d.id || d.closest("tr")?.cells[0].textContent;
let loading = false, again = false, since = null;
const lamp = document.getElementById("live");

// The lamp says whether what is shown is up to date, and since when it is not.
function stale(why) {
  since = why ? since || new Date() : null;
  lamp.classList.toggle("on", !why);
  lamp.textContent = why ? `${why} since ${clock.format(since)}: this is old` : "live";
  lamp.title = why ? "It tries again by itself" : "Kept up to date";
  document.body.classList.toggle("stale", !!why);
}

async function load() {
  if (loading) { again = true; return; }
  loading = true;
  try {
    const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (answer.status === 401) { location.reload(); return; }
    if (!answer.ok) {
      stale("the database is unreachable");
      setTimeout(load, 5000);
      return;
    }
    const fresh = new DOMParser().parseFromString(await answer.text(), "text/html");
    for (const part of document.querySelectorAll("[data-live]")) {
      const now = fresh.getElementById(part.id);
      if (!now || part.sent === now.innerHTML) continue;
      if (part.querySelector("details[open] form, input:checked") || part.contains(document.activeElement) && document.activeElement.matches("input, select, button")) continue;
      const row = part.contains(document.activeElement) && document.activeElement.getAttribute("href");
      part.sent = now.innerHTML;
      const open = new Map([...part.querySelectorAll("details")].map((d) => [folded(d), d.open]));
      for (const d of now.querySelectorAll("details")) d.open = open.get(folded(d)) ?? d.open;
      part.replaceChildren(...now.childNodes);
      if (row) part.querySelector(`a[href="${CSS.escape(row)}"]`)?.focus();
    }
    times(document);
    stale("");
  } catch { // the next event tries again
    stale("the server is unreachable");
  } finally {
    loading = false;
    if (again) { again = false; setTimeout(load, 200); }
  }
}

if (lamp && document.querySelector("[data-live]") && !document.querySelector("[data-still]")) {
  for (const part of document.querySelectorAll("[data-live]")) part.sent = part.innerHTML;
  let source;
  const listen = () => {
    source = new EventSource(base + "live");
    source.onopen = load;
    source.onerror = () => {
      stale("the server is unreachable");
      if (source.readyState !== EventSource.CLOSED) return; // else it does not try again by itself
      load(); // which leads to the login if the session is over
      setTimeout(() => { if (!document.hidden && source.readyState === EventSource.CLOSED) listen(); }, 5000);
    };
    source.onmessage = load;
  };
  lamp.hidden = false;
  if (!document.hidden) listen();
  document.addEventListener("visibilitychange", () => { // a page that nobody sees asks for nothing
    source?.close();
    lamp.classList.remove("on");
    if (!document.hidden) listen();
  });
  setInterval(() => times(document), 5000);
}
times(document);

// A change of many jobs goes on by itself, request by request.
const more = document.querySelector("form[data-go]");
if (more) setTimeout(() => more.requestSubmit(), 300);

// Copying.
for (const button of document.querySelectorAll("[data-copy]")) {
  if (!navigator.clipboard) continue;
  button.hidden = false;
  button.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(button.dataset.copy);
      button.textContent = "copied";
    } catch { // the browser does not allow it
      getSelection().selectAllChildren(button.previousElementSibling);
      button.textContent = "selected: copy it by hand";
    }
  });
}

// All jobs of a page are ticked at once.
document.documentElement.classList.add("js");
document.addEventListener("change", (e) => {
  if (e.target.id === "tick-all") for (const box of document.querySelectorAll("input[form=many]")) box.checked = e.target.checked;
});

document.querySelector(".tabs [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });

// Keys.
let before = "";
document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || e.target.matches("input, select, textarea")) return;
  const key = before + e.key;
  before = e.key === "g" ? "g" : "";
  const links = [...document.querySelectorAll("tbody a.row, table.jobs td:first-child a")];
  const at = links.indexOf(document.activeElement);
  switch (key) {
    case "/": document.getElementById("find")?.focus(); break;
    case "j": links[Math.min(at + 1, links.length - 1)]?.focus(); break;
    case "k": links[Math.max(at - 1, 0)]?.focus(); break;
    case "gq": location.href = base; break;
    case "gf": location.href = base + "failures"; break;
    case "gw": location.href = base + "workers"; break;
    case "gc": location.href = base + "changes"; break;
    case "gs": location.href = base + "schedules"; break;
    case "?": location.href = base + "keys"; break;
    default: return;
  }
  e.preventDefault();
});
