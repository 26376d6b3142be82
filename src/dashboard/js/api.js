// The node's HTTP API. Every answer that is not a success becomes a `Problem`, which says what to do.

const TOKEN = "ingestd.token";

/** What was refused, and why: RFC 9457, or what took its place when nothing answered. */
export class Problem extends Error {
  constructor(status, body) {
    super(body.detail || body.title || `The node answered ${status}`);
    this.status = status;
    this.kind = (body.type ?? "").split(":").pop() || (status === 0 ? "unreachable" : "unknown");
    this.title = body.title ?? "Something went wrong";
    this.detail = body.detail ?? "";
    this.problems = Array.isArray(body.problems) ? body.problems : [];
    this.instance = body.instance;
    this.retryAfter = body.retryAfter;
  }

  /** What somebody can do about it; empty if the detail says it. */
  get advice() {
    return ADVICE[this.kind] ?? "";
  }
}

const ADVICE = {
  unreachable: "Is the node running? The page tries again by itself.",
  unauthorized: "Log in again with a token of this node.",
  forbidden: "Log in with a token of a higher role.",
  "cross-origin": "Open the dashboard at the node's own address.",
  "wrong-host": "Open the dashboard at the node's own address (api.public_url).",
  busy: "Wait until the worker is done, or ask an admin to force it.",
  changed: "It was changed meanwhile: look at it again, and repeat what you wanted.",
  timeout: "Try again; the connection was too slow.",
  "too-large": "It is larger than this node takes (api.max_upload); give a URL instead.",
  "too-many-requests": "Wait a little, and try again.",
  internal: "This is a defect. The node's log has the details, with the same instance.",
  unreadable: "Something in the tree is damaged: run ingestd fsck.",
  "tree-away": "The tree cannot be reached. The node goes on by itself when it is back.",
  behind: "This node has not seen yet what was just done elsewhere. Try again in a moment.",
  starting: "The node is starting. Try again in a moment.",
  ending: "The node is ending. Use another one, or wait until it is started again.",
  "no-space": "The node's disk is full: make room, or give a URL instead of a file.",
  "needs-confirmation": "Confirm it, if that is what you want.",
};

export function token() {
  try {
    return sessionStorage.getItem(TOKEN) ?? "";
  } catch {
    return "";
  }
}

/** Keeps the token until the tab is closed; an empty one is forgotten. */
export function keepToken(value) {
  if (value) {
    sessionStorage.setItem(TOKEN, value);
  } else {
    sessionStorage.removeItem(TOKEN);
  }
}

export function headers(more = {}) {
  const known = token();
  return known ? { ...more, Authorization: `Bearer ${known}` } : more;
}

/** `query({state: "failed", text: ""})` leaves out what is empty. */
export function query(values) {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined && value !== null && value !== "" && value !== false) {
      parameters.set(name, value);
    }
  }
  const text = parameters.toString();
  return text ? `?${text}` : "";
}

/** A part of a path that somebody else may have named. */
export function part(name) {
  return encodeURIComponent(name);
}

/** What an answer that is no success says. */
export async function problemOf(response) {
  let body = {};
  try {
    body = await response.json();
  } catch {
    // Whatever stands between here and the node does not speak JSON.
    body = { title: `The node answered ${response.status} ${response.statusText}` };
  }
  body.retryAfter = Number(response.headers.get("Retry-After")) || undefined;
  return new Problem(response.status, body ?? {});
}

/** The last moment of the cluster that this page has heard of: what it reads then is not older than what it did. */
let moment = "";

async function ask(method, path, { body, signal, accept } = {}) {
  const extra = { Accept: accept ?? "application/json" };
  if (method !== "GET") {
    // Other sites cannot send this header: that is what the node asks for on every change.
    extra["X-Ingestd"] = "1";
    extra["Content-Type"] = "application/json";
  }
  if (method === "GET" && moment) {
    extra["X-Ingestd-Ltime"] = moment;
  }
  let response;
  try {
    response = await fetch(`/api/v1${path}`, {
      method,
      signal,
      headers: headers(extra),
      cache: "no-store",
      credentials: "omit",
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch (error) {
    if (error.name === "AbortError") {
      throw error;
    }
    throw new Problem(0, { title: "The node cannot be reached", detail: "No answer came from it." });
  }
  moment = response.headers.get("X-Ingestd-Ltime") ?? moment;
  if (!response.ok) {
    const problem = await problemOf(response);
    if (problem.kind === "unauthorized") {
      document.dispatchEvent(new CustomEvent("ingestd:unauthorized"));
    }
    throw problem;
  }
  return response;
}

const json = async (method, path, options) => {
  const response = await ask(method, path, options);
  return response.status === 204 ? {} : response.json();
};

export const get = (path, signal) => json("GET", path, { signal });
export const post = (path, body = {}) => json("POST", path, { body });
export const put = (path, body = {}) => json("PUT", path, { body });
export const patch = (path, body = {}) => json("PATCH", path, { body });
export const remove = (path) => json("DELETE", path);

/** Fetches a file, with the token, and hands it to the browser under a name. */
export async function download(path, name, accept) {
  const response = await ask("GET", path, { accept });
  const address = URL.createObjectURL(await response.blob());
  const link = document.createElement("a");
  link.href = address;
  link.download = name;
  link.click();
  URL.revokeObjectURL(address);
}

/** Sends a form; `onProgress` is told the share that has been sent. */
export function upload(path, form, onProgress) {
  return new Promise((resolve, reject) => {
    const request = new XMLHttpRequest();
    request.open("POST", `/api/v1${path}`);
    for (const [name, value] of Object.entries(headers({ Accept: "application/json", "X-Ingestd": "1" }))) {
      request.setRequestHeader(name, value);
    }
    request.upload.addEventListener("progress", (event) => {
      if (event.lengthComputable && event.total > 0) {
        onProgress(event.loaded / event.total);
      }
    });
    request.addEventListener("error", () => {
      reject(
        new Problem(0, { title: "The node cannot be reached", detail: "The upload broke off. Nothing was submitted." }),
      );
    });
    request.addEventListener("load", () => {
      let body = {};
      try {
        body = JSON.parse(request.responseText);
      } catch {
        body = { title: `The node answered ${request.status} ${request.statusText}` };
      }
      if (request.status >= 200 && request.status < 300) {
        resolve(body);
      } else {
        reject(new Problem(request.status, body));
      }
    });
    request.send(form);
  });
}
