"use strict";
// Zooms into timelines: what is shown is the viewBox of the picture's inner SVG, in nanoseconds.
document.documentElement.classList.add("has-script");
for (const zoom of document.querySelectorAll(".zoom")) {
  const span = Number(zoom.dataset.span);
  const lanes = zoom.querySelector("svg.lanes");
  const axis = zoom.querySelector("g.axis-x");
  const [left, width] = ["x", "width"].map((name) => lanes[name].baseVal.value);
  const height = lanes.height.baseVal.value;
  const shortest = Math.min(span, 200);
  let from = 0;
  let length = span;

  const buttons = document.createElement("div");
  buttons.className = "buttons";
  const told = document.createElement("output");
  const button = (text, label, act) => {
    const made = document.createElement("button");
    made.type = "button";
    made.textContent = text;
    made.setAttribute("aria-label", label);
    made.addEventListener("click", act);
    buttons.append(made);
  };

  const time = (ns) => {
    const [scale, unit] = [[1e9, "s"], [1e6, "ms"], [1e3, "us"], [1, "ns"]].find(([s]) => ns >= s) ?? [1, "ns"];
    return ns === 0 ? "0" : `${Number((ns / scale).toPrecision(6))} ${unit}`;
  };
  const step = (about) => {
    const power = 10 ** Math.floor(Math.log10(about));
    return power * [1, 2, 5, 10].find((round) => round * power >= about * 0.999);
  };
  const part = (name, attributes, text) => {
    const made = document.createElementNS("http://www.w3.org/2000/svg", name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    if (text) made.textContent = text;
    axis.append(made);
  };

  const show = (newFrom, newLength) => {
    length = Math.min(span, Math.max(shortest, newLength));
    from = Math.min(span - length, Math.max(0, newFrom));
    lanes.setAttribute("viewBox", `${from} 0 ${length} ${height}`);
    axis.replaceChildren();
    const every = step(length / 8);
    for (let tick = Math.ceil(from / every) * every; tick <= from + length; tick += every) {
      const x = left + (width * (tick - from)) / length;
      part("path", { class: "tick", d: `M${x} ${height}v5` });
      part("text", { x, y: height + 19, "text-anchor": "middle" }, time(tick));
    }
    told.textContent = length === span ? "" : `${time(from)} to ${time(from + length)}`;
  };
  const scale = (factor, middle = 0.5) => show(from + length * middle * (1 - factor), length * factor);
  const move = (share) => show(from + share * length, length);

  button("+", "zoom in", () => scale(0.5));
  button("−", "zoom out", () => scale(2));
  button("←", "earlier", () => move(-0.5));
  button("→", "later", () => move(0.5));
  button("all", "show all", () => show(0, span));
  buttons.append(told);
  zoom.closest("figure").insertBefore(buttons, zoom.parentElement);
  zoom.classList.add("live");

  const keys = {
    "+": () => scale(0.5), "=": () => scale(0.5), "-": () => scale(2), "0": () => show(0, span),
    ArrowLeft: () => move(-0.25), ArrowRight: () => move(0.25),
  };
  zoom.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || !keys[event.key]) return;
    event.preventDefault();
    keys[event.key]();
  });
  // Where the pointer is, as a share of what is shown.
  const share = (event) => {
    const box = lanes.getBoundingClientRect();
    return Math.min(1, Math.max(0, (event.clientX - box.left) / box.width));
  };
  zoom.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    scale(event.deltaY < 0 ? 0.8 : 1.25, share(event));
  }, { passive: false });
  let held = null;
  zoom.addEventListener("pointerdown", (event) => {
    if (event.pointerType !== "mouse" || event.button !== 0) return;
    held = { share: share(event), from };
    zoom.setPointerCapture(event.pointerId);
    zoom.classList.add("held");
  });
  zoom.addEventListener("pointermove", (event) => {
    if (held) show(held.from + (held.share - share(event)) * length, length);
  });
  for (const name of ["pointerup", "pointercancel"]) {
    zoom.addEventListener(name, () => { held = null; zoom.classList.remove("held"); });
  }
  zoom.addEventListener("dblclick", (event) => scale(0.4, share(event)));
}

// A search box for each long table of records: rows are shown that have all of its words.
for (const scroll of document.querySelectorAll(".scroll:has(> table.other)")) {
  const rows = [...scroll.querySelectorAll("tbody > tr:not(.group)")];
  if (rows.length < 6) continue;
  const box = document.createElement("input");
  box.type = "search";
  box.placeholder = "search these rows";
  const told = document.createElement("output");
  box.setAttribute("aria-label", `search in: ${scroll.getAttribute("aria-label")}`);
  box.addEventListener("input", () => {
    const words = box.value.toLowerCase().split(/\s+/);
    for (const row of rows) {
      const text = row.textContent.toLowerCase();
      row.hidden = !words.every((word) => text.includes(word));
    }
    const left = rows.filter((row) => !row.hidden).length;
    told.textContent = left < rows.length ? `${left} of ${rows.length} rows` : "";
  });
  scroll.before(box, told);
}
