// Keeps the page as the server says it is. Without this script everything
// works by forms; with it every open window follows by itself.
"use strict";

const body = document.body;

// A development system prints an address with the key behind the hash, which
// no server ever sees: it is posted and taken out of the address at once.
function takeKey() {
  const key = new URLSearchParams(location.hash.slice(1)).get("key");
  if (!key) return;
  history.replaceState(null, "", location.pathname + location.search);
  const login = document.getElementById("login");
  if (!login) return; // signed in already, and staying so
  login.elements.key.value = key;
  login.requestSubmit();
}
addEventListener("hashchange", takeKey);
takeKey();

// Times come in UTC and are shown in the reader's own time.
const format = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
function localize(root) {
  for (const element of root.querySelectorAll("time")) {
    element.textContent = format.format(new Date(element.dateTime));
    element.title = element.dateTime;
  }
}
localize(document);

// sync makes the children of a list those of another, and leaves alone what
// did not change: a reason half written, an opened detail and the focus stay.
function sync(list, next) {
  const known = new Map();
  for (const child of list.children) if (child.id) known.set(child.id, child);
  let place = list.firstElementChild;
  for (const fresh of [...next.children]) {
    let child = known.get(fresh.id);
    if (child) {
      known.delete(fresh.id);
      for (const opened of child.querySelectorAll("details[open]")) {
        const twin = fresh.querySelector("#" + CSS.escape(opened.id));
        if (twin) twin.open = true;
      }
      if (!child.isEqualNode(fresh)) {
        if (child.hasAttribute("data-list") && fresh.hasAttribute("data-list")) {
          for (const a of fresh.attributes) child.setAttribute(a.name, a.value);
          sync(child, fresh);
        } else {
          if (place === child) place = fresh;
          child.replaceWith(fresh);
          child = fresh;
        }
      }
    } else {
      child = fresh;
    }
    if (child === place) place = place.nextElementSibling;
    else list.insertBefore(child, place);
  }
  while (place) {
    const gone = place;
    place = place.nextElementSibling;
    gone.remove();
  }
}

// show puts a part that the server drew into its place.
function show(name, html) {
  const part = document.querySelector(`[data-part="${name}"]`);
  if (!part) return;
  const next = document.createElement("template");
  next.innerHTML = html;
  localize(next.content);
  const atEnd = innerHeight + scrollY > document.documentElement.scrollHeight - 120;
  sync(part, next.content);
  if (name === "conversation" && atEnd) scrollTo({ top: document.documentElement.scrollHeight });
}

function follow() {
  const link = document.getElementById("link");
  const topic = body.dataset.topic;
  const events = new EventSource("/events" + (topic ? "?id=" + encodeURIComponent(topic) : ""));
  for (const name of ["conversation", "topics"]) events.addEventListener(name, (e) => show(name, e.data));
  events.onopen = () => { link.textContent = ""; };
  events.onerror = () => {
    link.textContent = "Not live. Reconnecting …";
    // The browser tries again by itself, unless it was refused.
    if (events.readyState === EventSource.CLOSED) setTimeout(follow, 3000);
  };
  addEventListener("pagehide", () => events.close());
}
if ("live" in body.dataset) follow();

// A conversation opens where it goes on: at the first card that waits, or at
// its end.
if (body.dataset.topic && !location.hash) {
  const waiting = document.querySelector(".tool.wait");
  if (waiting) waiting.scrollIntoView({ block: "center" });
  else scrollTo({ top: document.documentElement.scrollHeight });
}

// Answers and messages are posted without leaving the page; what comes back is
// the page as it stands then.
document.addEventListener("submit", async (event) => {
  const form = event.target;
  if (!form.matches(".decide, .say:not(.start)")) return;
  event.preventDefault();
  const data = new URLSearchParams(new FormData(form, event.submitter));
  const buttons = form.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  try {
    const answer = await fetch(form.action, { method: "POST", body: data });
    const text = await answer.text();
    const page = new DOMParser().parseFromString(text, "text/html");
    const part = page.querySelector('[data-part="conversation"]');
    const notice = page.getElementById("notice");
    if (page.getElementById("login")) return location.assign("/");
    if (part) show("conversation", part.innerHTML);
    document.getElementById("notice").replaceChildren(...(notice ? notice.childNodes : [part ? "" : text]));
    if (answer.ok && form.matches(".say")) form.reset();
  } catch {
    document.getElementById("notice").textContent = "The server did not answer. Whether your answer was taken shows when it is back; giving it again does no harm.";
  } finally {
    for (const button of buttons) button.disabled = false;
  }
});
