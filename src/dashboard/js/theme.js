// Light or dark, as chosen here before; without a choice, as the system says.
"use strict";
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("ingestd.theme");
  } catch {
    // Storage may be forbidden: then the system's choice holds.
  }
  if (chosen === "light" || chosen === "dark") {
    document.documentElement.dataset.theme = chosen;
  }
}
