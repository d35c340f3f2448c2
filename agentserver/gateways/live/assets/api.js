// What is asked of the server. A session is a cookie that no script can read; what changes anything has a header that
// no other origin can send.

export class Refused extends Error {
  constructor(status, why) {
    super(why);
    this.status = status;
  }
}

async function asked(method, path, body, signal) {
  const headers = method === "GET" ? {} : { "x-agentserver": "live", "content-type": "application/json" };
  const answer = await fetch(path, {
    method, headers, body: body && JSON.stringify(body), cache: "no-store", credentials: "same-origin", signal,
  });
  const told = await answer.json().catch(() => ({}));
  if (!answer.ok) throw new Refused(answer.status, told.title || `the server says ${answer.status}`);
  return told;
}

// The prefix below which a proxy serves the door is in the address of this file.
export const place = (path) => new URL(`../${path}`, import.meta.url).href;
const at = (parts) => place(parts.map(encodeURIComponent).join("/"));

export const read = (...parts) => asked("GET", at(parts));
export const find = (path, query) => asked("GET", place(`${path}?${new URLSearchParams(query)}`));
export const send = (body, ...parts) => asked("POST", at(parts), body);
export const attempt = (body, signal) => asked("POST", place("trials"), body, signal);
export const login = (token) => asked("POST", place("session"), { token });
export const logout = () => asked("DELETE", place("session"));

const PAUSE = 1000; // milliseconds between two readings

// At most one reading in a pause, which is a second, one at a time, and none while the page is hidden.
export function paced(again, pause = PAUSE) {
  let [timer, more, over] = [0, false, false];
  const soon = () => {
    more = true;
    if (!over) timer ||= setTimeout(turn, pause);
  };
  const turn = async () => {
    if (!document.hidden) {
      more = false;
      await again().catch(() => {});
    }
    timer = 0;
    if (more) soon();
  };
  const stop = () => {
    over = true;
    clearTimeout(timer);
  };
  return { soon, stop };
}
