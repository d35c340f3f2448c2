// The frame: who is logged in, which page is shown, and the stream of news that all pages share.

import { Refused, login, logout, place, read } from "./api.js";
import { button, el, link, put, replace } from "./dom.js";
import { Kept } from "./news.js";
import * as approvals from "./approvals.js";
import * as conversations from "./conversations.js";
import * as dead from "./dead.js";
import * as organism from "./organism.js";
import * as overview from "./overview.js";
import * as usage from "./usage.js";

const PAGES = [
  ["overview", "Overview", overview],
  ["organism", "Organism", organism],
  ["conversations", "Conversations", conversations],
  ["approvals", "Approvals", approvals],
  ["dead", "Dead letters", dead],
  ["usage", "Usage", usage],
];

const main = document.getElementById("main");
const header = document.getElementById("header");
const status = document.getElementById("status");

let me = null;
let page = null;
let kept = null; // the news for a page that is being made
let feed = null;
let turn = 0;

const say = (text) => replace(status, text);

const parts = () => location.hash.replace(/^#\/?/, "").split("/").filter(Boolean).map((part) => {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
});

// The frame

function frame() {
  const [name] = parts();
  const links = PAGES.map(([key, title]) => {
    const node = link([key], title);
    if (key === (name ?? PAGES[0][0])) node.setAttribute("aria-current", "page");
    return el("li", {}, node, key === "approvals" && el("span", { class: "badge", id: "waiting" }));
  });
  replace(header,
    el("p", { class: "brand" }, el("span", { class: "quiet" }, "agentserver "), el("b", {}, me.organism)),
    el("nav", { "aria-label": "Pages" }, el("ul", {}, links)),
    el("p", { class: "who" },
      el("span", { id: "line", class: "line" }, "connecting"),
      el("span", {}, `${me.name}, ${me.role}`),
      button("Log out", leave, "plain")));
  document.title = `${(PAGES.find(([key]) => key === name) ?? PAGES[0])[1]} · ${me.organism}`;
}

function badge(waiting) {
  const node = document.getElementById("waiting");
  if (node) replace(node, waiting > 0 && [String(waiting), el("span", { class: "unseen" }, " wait")]);
}

function connection(state, text) {
  const node = document.getElementById("line");
  if (!node) return;
  node.className = `line ${state}`;
  replace(node, text);
}

// Pages

async function show() {
  const mine = ++turn;
  page?.stop?.();
  page = null;
  if (!me) return;
  kept = new Kept();
  frame();
  connection(...line);
  badge(state.waiting);
  const [name, ...rest] = parts();
  const found = PAGES.find(([key]) => key === name) ?? PAGES[0];
  try {
    const next = await found[2].show(rest, { me, say, state });
    if (mine !== turn) return next.stop?.();
    page = next;
    replace(main, page.node);
    page.shown?.();
    caught();
    if (mine > 1) main.focus({ preventScroll: true });
    window.scrollTo(0, 0);
  } catch (error) {
    if (mine === turn) failed(error);
  }
}

function failed(error) {
  caught();
  if (!(error instanceof Refused)) throw error;
  if (error.status === 401) return ask("Your session is over.");
  replace(main, el("h1", {}, "Nothing to show"), el("p", {}, error.message));
}

// News

const state = { waiting: 0, queues: {} };
let line = ["", "connecting"];

function hear(news) {
  state.queues = news.queues;
  if (news.waiting !== state.waiting) badge((state.waiting = news.waiting));
  if (news.missed) say(`${news.missed} steps or messages were too many to show`);
  if (kept) kept.add(news);
  else page?.news?.(news);
}

// The page is shown, or cannot be: it hears what came while it was made.
function caught() {
  const { told } = kept;
  kept = null;
  if (told) hear(told);
}

// The server tells something at once. From then on nothing is lost, and what a page has read before may be old.
function listen() {
  feed?.close();
  const mine = new EventSource(place("feed"));
  feed = mine;
  let anew = true;
  mine.onmessage = (event) => {
    if (anew) connection(...(line = ["on", "live"]));
    hear({ ...JSON.parse(event.data), anew });
    anew = false;
  };
  mine.onerror = async () => {
    anew = true;
    connection(...(line = ["off", "not connected"]));
    if (mine.readyState !== EventSource.CLOSED) return;
    try {
      const found = await read("session");
      if (!found.name && mine === feed) return ask("Your session is over.");
    } catch {
      // The server is away; it may come back.
    }
    setTimeout(() => me && mine === feed && listen(), 2000);
  };
}

// Sessions

let issuers = []; // identity providers at which one can sign in

const door = (issuer) => button(`Sign in at ${new URL(issuer).host}`,
  () => location.assign(place(`sign-in?${new URLSearchParams({ issuer })}`)), "good");

function ask(why = "") {
  me = null;
  turn++;
  feed?.close();
  page?.stop?.();
  page = kept = null;
  document.title = "agentserver";
  replace(header, el("p", { class: "brand" }, el("b", {}, "agentserver")));
  const field = el("input", {
    id: "token", name: "token", type: "password", autocomplete: "current-password", spellcheck: "false", required: true,
  });
  const fault = el("p", { role: "alert", class: "fault" }, why);
  const form = el("form", { class: "login" },
    el("h1", {}, "Log in"),
    issuers.map(door),
    el("label", { for: "token" }, "Token of a principal"),
    field,
    el("button", { type: "submit", class: "good" }, "Log in"),
    fault,
    el("p", { class: "quiet" }, "agentserver principals add NAME --role operator gives one; --role viewer sees no contents."));
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    replace(fault);
    try {
      await login(field.value.trim());
      field.value = "";
      await begin();
      if (!me) replace(main.querySelector(".fault"), "This browser does not keep the session: it wants https, or http on this very machine.");
    } catch (error) {
      replace(fault, error.message);
    }
  });
  replace(main, form);
  field.focus();
}

async function leave() {
  const { leave: away } = await logout().catch(() => ({}));
  if (away) return location.assign(away);
  say("You are logged out.");
  ask();
}

async function begin() {
  const found = await read("session");
  issuers = found.issuers ?? issuers;
  if (!found.name) return ask();
  me = found;
  say("");
  listen();
  await show();
}

document.querySelector(".skip").addEventListener("click", (event) => {
  event.preventDefault();
  main.focus();
});
window.addEventListener("hashchange", show);
put(main);
await begin();
