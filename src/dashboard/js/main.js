// The dashboard: who looks (or the form to log in), then the frame around the pages, and the page that the address
// names.

import { h, fill } from "./dom.js";
import * as api from "./api.js";
import { App } from "./app.js";
import { Shell } from "./shell.js";
import { Router } from "./router.js";
import { loginForm } from "./login.js";
import { problem } from "./notices.js";

const place = document.getElementById("app");
let app = null;
let router = null;

function end() {
  router?.stop();
  app?.stop();
  app = null;
  router = null;
}

function login(error) {
  end();
  api.keepToken("");
  document.title = "Log in · ingestd";
  fill(place, loginForm(error, begin));
}

async function begin() {
  end();
  let me;
  try {
    me = await api.get("/me");
  } catch (error) {
    if (error.kind === "unauthorized") {
      login(api.token() ? error : null);
      return;
    }
    document.title = "ingestd";
    fill(
      place,
      h(
        "main.alone",
        { id: "main", tabindex: "-1" },
        h("h1", "The node does not answer"),
        h("div.callout.is-failed", problem(error)),
        h("button.primary", { type: "button", onclick: begin }, "Try again"),
      ),
    );
    return;
  }
  app = new App(me);
  const shell = new Shell(app, { logOut: () => login(null) });
  fill(place, shell.element);
  router = new Router(app, shell);
  app.start();
  router.start();
}

document.addEventListener("ingestd:unauthorized", () => {
  if (app) {
    login(new api.Problem(401, { type: ":unauthorized", title: "The token is not known any more" }));
  }
});

begin();
