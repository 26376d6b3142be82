// How elements are made. Data only ever becomes text or the value of an attribute, never markup: whatever a
// depositor has written into a name is shown as it is, and does nothing.

const SVG = "http://www.w3.org/2000/svg";

/** Addresses that a link may have: of this page, of this node, of the web. */
function isHarmless(address) {
  return /^(#|\/(?!\/)|https?:\/\/)/i.test(address);
}

function put(element, name, value) {
  if (value === undefined || value === null || value === false) {
    return;
  }
  if (name.startsWith("on")) {
    element.addEventListener(name.slice(2), value);
  } else if (name === "data") {
    Object.assign(element.dataset, value);
  } else if ((name === "value" || name === "checked" || name === "selected") && name in element) {
    element[name] = value;
  } else if (name === "href" && !isHarmless(String(value))) {
    // An address that somebody else wrote and that would run something stays a text.
    element.title = String(value);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

function add(element, children) {
  for (const child of children.flat(Infinity)) {
    if (child !== undefined && child !== null && child !== false) {
      element.append(child instanceof Node ? child : String(child));
    }
  }
  return element;
}

/** An element: `h("a.button", {href: "#/jobs"}, "Jobs")`. Attributes may be left out. */
export function h(what, attributes, ...children) {
  const [tag, ...classes] = what.split(".");
  const element = document.createElement(tag || "div");
  if (classes.length > 0) {
    element.className = classes.join(" ");
  }
  const plain =
    attributes !== null &&
    typeof attributes === "object" &&
    !Array.isArray(attributes) &&
    !(attributes instanceof Node);
  if (plain) {
    for (const [name, value] of Object.entries(attributes)) {
      put(element, name, value);
    }
    return add(element, children);
  }
  return add(element, [attributes, ...children]);
}

/** An element of a drawing. */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) {
    element.setAttribute(name, String(value));
  }
  return add(element, children);
}

/** Replaces all that is in an element. */
export function fill(element, ...children) {
  element.replaceChildren();
  return add(element, children);
}

/** Sets a text only if it differs: what has not changed is not painted again, nor read out again. */
export function say(element, text) {
  const next = String(text);
  if (element.textContent !== next) {
    element.textContent = next;
  }
}

const FOCUSABLE = "a[href], button, input, select, textarea, summary";
const lists = new WeakMap();

/**
 * Makes the children of `parent` those of `items`, in their order. What has not changed stays the same element,
 * and the focus stays where it was, so that live changes do not disturb whoever works with the list.
 */
export function keyed(parent, items, keyOf, build) {
  const before = lists.get(parent) ?? new Map();
  const now = new Map();
  const focused = parent.contains(document.activeElement) ? document.activeElement : null;
  let place = null;
  const elements = items.map((item) => {
    const key = String(keyOf(item));
    const written = JSON.stringify(item);
    const known = before.get(key);
    if (known && known.written === written) {
      now.set(key, known);
      return known.element;
    }
    const element = build(item);
    if (known && focused && known.element.contains(focused)) {
      place = { element, index: [...known.element.querySelectorAll(FOCUSABLE)].indexOf(focused) };
    }
    now.set(key, { written, element });
    return element;
  });
  const same =
    parent.childNodes.length === elements.length &&
    elements.every((element, index) => parent.childNodes[index] === element);
  if (!same) {
    parent.replaceChildren(...elements);
  }
  lists.set(parent, now);
  if (place && place.index >= 0) {
    place.element.querySelectorAll(FOCUSABLE)[place.index]?.focus();
  } else if (focused && !same && focused.isConnected) {
    focused.focus();
  }
}

/** A drawing of 16 × 16 from the table below; it is never the only sign for something. */
export function icon(name) {
  const drawing = svg("svg", {
    class: `icon icon-${name}`,
    viewBox: "0 0 16 16",
    "aria-hidden": "true",
    focusable: "false",
  });
  for (const [tag, attributes] of ICONS[name] ?? []) {
    drawing.append(svg(tag, attributes));
  }
  return drawing;
}

const line = (d) => ["path", { d, class: "stroke" }];
const area = (d) => ["path", { d, class: "area" }];

const ICONS = {
  // States: each has a shape of its own, so that none is known by its colour alone.
  waiting: [["circle", { cx: 8, cy: 8, r: 5, class: "stroke" }]],
  working: [area("M8 2a6 6 0 1 1 0 12A6 6 0 0 1 8 2Z")],
  held: [area("M3.5 2.5h3v11h-3zM9.5 2.5h3v11h-3z")],
  failed: [area("M8 1.5 15 14H1Z"), ["path", { d: "M8 6v4M8 11.6v.9", class: "cut" }]],
  completed: [line("M2.5 8.5 6.5 12.5 13.5 4")],
  gone: [line("M3 8h10")],
  // Everything else.
  close: [line("M3.5 3.5l9 9M12.5 3.5l-9 9")],
  menu: [line("M2 4h12M2 8h12M2 12h12")],
  light: [
    ["circle", { cx: 8, cy: 8, r: 3, class: "stroke" }],
    line("M8 .8v2M8 13.2v2M.8 8h2M13.2 8h2M2.9 2.9l1.4 1.4M11.7 11.7l1.4 1.4M2.9 13.1l1.4-1.4M11.7 4.3l1.4-1.4"),
  ],
  dark: [area("M6.2 1.6A6.6 6.6 0 1 0 14.4 9.8 5.6 5.6 0 0 1 6.2 1.6Z")],
  auto: [["circle", { cx: 8, cy: 8, r: 6, class: "stroke" }], area("M8 2a6 6 0 0 1 0 12Z")],
  keys: [
    ["rect", { x: 1, y: 4, width: 14, height: 8.5, rx: 1.5, class: "stroke" }],
    line("M3.6 6.8h.8M6.4 6.8h.8M9.2 6.8h.8M12 6.8h.6M4.6 9.8h6.8"),
  ],
  pipeline: [
    line("M1.5 8h2M6.5 8h3M12.5 8h2"),
    ["circle", { cx: 5, cy: 8, r: 1.6, class: "stroke" }],
    ["circle", { cx: 11, cy: 8, r: 1.6, class: "stroke" }],
  ],
  batches: [line("M2 5.5 8 2.5l6 3-6 3zM2 8.5l6 3 6-3M2 11.5l6 3 6-3")],
  jobs: [line("M5.5 3.5H14M5.5 8H14M5.5 12.5H14M2 3.5h.6M2 8h.6M2 12.5h.6")],
  hold: [line("M5 3v10M11 3v10")],
  nodes: [
    ["rect", { x: 2, y: 2.5, width: 12, height: 4.5, rx: 1, class: "stroke" }],
    ["rect", { x: 2, y: 9, width: 12, height: 4.5, rx: 1, class: "stroke" }],
    line("M4.5 4.8h.6M4.5 11.3h.6"),
  ],
  tree: [
    line("M8 4.5v3M3.5 11V7.5h9V11"),
    ["circle", { cx: 8, cy: 3, r: 1.6, class: "stroke" }],
    ["circle", { cx: 3.5, cy: 12.6, r: 1.6, class: "stroke" }],
    ["circle", { cx: 12.5, cy: 12.6, r: 1.6, class: "stroke" }],
  ],
  restarts: [line("M13.5 8A5.5 5.5 0 1 1 11.6 3.8M13.6 1.8v3h-3")],
  feeds: [line("M2.5 13.5h.01M2.5 8.5a5 5 0 0 1 5 5M2.5 3.5a10 10 0 0 1 10 10")],
  access: [line("M8 2v8M4.8 7 8 10.2 11.2 7M2.5 13.5h11")],
  submit: [line("M8 10.5v-8M4.8 5.6 8 2.4l3.2 3.2M2.5 13.5h11")],
  requests: [line("M2 9h3.5l1 2h3l1-2H14M2 9l2-6.2h8L14 9v4.5H2z")],
  settings: [
    line("M2 4.5h6.5M12.5 4.5H14M2 11.5h1.5M7.5 11.5H14"),
    ["circle", { cx: 10.5, cy: 4.5, r: 1.7, class: "stroke" }],
    ["circle", { cx: 5.5, cy: 11.5, r: 1.7, class: "stroke" }],
  ],
  audit: [line("M4 1.8h6l2.5 2.5v9.9H4zM6 7h4.5M6 10h4.5")],
};
