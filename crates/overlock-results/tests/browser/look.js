// What a person who looks at the page would complain about: a list of sentences.
"use strict";
(() => {
  const faults = [];
  const all = (css, within = document) => [...within.querySelectorAll(css)];
  const named = (of) => `${of.localName}${of.classList.length ? "." + of.classList[0] : ""} '${(of.textContent ?? "").trim().slice(0, 40)}'`;
  const say = (what, of, more = "") => faults.push(`${what}: ${named(of)}${more}`);
  const root = document.scrollingElement;

  // Colours, by what the browser paints.
  const dot = Object.assign(document.createElement("canvas"), { width: 1, height: 1 });
  const paint = dot.getContext("2d", { willReadFrequently: true });
  const known = new Map();
  const rgba = (colour) => {
    if (!known.has(colour)) {
      paint.clearRect(0, 0, 1, 1);
      paint.fillStyle = colour;
      paint.fillRect(0, 0, 1, 1);
      const [r, g, b, a] = paint.getImageData(0, 0, 1, 1).data;
      known.set(colour, [r, g, b, a / 255]);
    }
    return known.get(colour);
  };
  const over = ([r, g, b, a], below) => [r, g, b].map((part, at) => a * part + (1 - a) * below[at]);
  // What is behind an element, and how opaque it is with all that it is in.
  const grounds = new Map([[null, [[255, 255, 255], 1]]]);
  const ground = (of) => {
    if (!grounds.has(of)) {
      const [below, opacity] = ground(of.parentElement);
      const style = getComputedStyle(of);
      grounds.set(of, [over(rgba(style.backgroundColor), below), opacity * Number(style.opacity)]);
    }
    return grounds.get(of);
  };
  const light = (colour) => {
    const [r, g, b] = colour.map((part) => (part /= 255) <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4);
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const contrast = (one, other) => {
    const [dark, bright] = [light(one), light(other)].sort((a, b) => a - b);
    return (bright + 0.05) / (dark + 0.05);
  };
  const against = (of, colour, least, what) => {
    const [below, opacity] = ground(of);
    const [r, g, b, a] = rgba(colour);
    const is = contrast(over([r, g, b, a * opacity], below), below);
    if (is < least) say(`${what} has a contrast of ${is.toFixed(2)}, not ${least}`, of);
  };

  // Every piece of text that is seen, with its rectangle.
  const isSeen = (of) => of.checkVisibility({ visibilityProperty: true, contentVisibilityAuto: true }) && !of.closest("thead")?.matches("[hidden]") && getComputedStyle(of.closest("thead") ?? of).clipPath === "none";
  const pieces = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walk.nextNode()); ) {
    const of = node.parentElement;
    if (!node.data.trim() || of.closest("script, style, svg title, svg desc") || !isSeen(of)) continue;
    const style = getComputedStyle(of);
    against(of, of.closest("svg") ? style.fill : style.color, 4.5, "text");
    const range = document.createRange();
    range.selectNodeContents(node);
    for (const box of range.getClientRects()) if (box.width > 0.5) pieces.push({ of, box, text: node.data.trim() });
  }
  const scrolls = (of) => of.closest(".scroll") && /auto|scroll/.test(getComputedStyle(of.closest(".scroll")).overflowX);
  for (const { of, box, text } of pieces) {
    if (!scrolls(of) && (box.left < -1 || box.right > root.clientWidth + 1)) say("text is beyond the page", of, ` at ${box.right}`);
    const chart = of.closest("svg.chart")?.getBoundingClientRect();
    const beyond = (edge) => box.left < edge.left - 1 || box.right > edge.right + 1 || box.top < edge.top - 2 || box.bottom > edge.bottom + 2;
    if (chart && beyond(chart)) say("text is outside of its chart", of);
    if (box.height < 9) say(`text is ${box.height.toFixed(1)} pixels high`, of);
    if (text === "NaN" || /undefined|Infinity|\bNaN\b/.test(text)) say("no number", of);
  }
  pieces.sort((a, b) => a.box.top - b.box.top);
  pieces.forEach((one, at) => {
    const inner = one.box.height * 0.2;
    for (const other of pieces.slice(at + 1)) {
      if (other.box.top > one.box.bottom - inner) break;
      const isApart = other.box.left > one.box.right - 1 || other.box.right < one.box.left + 1 || other.box.top + other.box.height * 0.2 > one.box.bottom - inner;
      if (!isApart) say("text overlaps", one.of, ` and ${named(other.of)}`);
    }
  });
  if (root.scrollWidth > root.clientWidth) faults.push(`the page is ${root.scrollWidth} pixels wide, and the window ${root.clientWidth}`);
  for (const of of all("body *").filter(isSeen)) {
    const clips = /hidden|clip/.test(getComputedStyle(of).overflowX);
    if (clips && !of.closest("svg") && of.scrollWidth > of.clientWidth + 1) say("it is cut off", of);
  }

  // Charts: axes with titles, marks where their figures are, lines that are seen.
  const shown = (css) => all(css).filter(isSeen);
  const factors = { ns: 1, us: 1e3, ms: 1e6, s: 1e9, k: 1e3, M: 1e6, G: 1e9, x: 1, "%": 1 };
  const figure = (text) => {
    const found = /^(-?[\d.]+(?:e-?\d+)?)\s*(ns|us|ms|s|k|M|G|x|%)?/.exec(text);
    return found && Number(found[1]) * (factors[found[2]] ?? 1);
  };
  for (const chart of shown("svg.chart")) {
    const axes = all("g.axis-x, g.axis-y", chart).length;
    if (axes === 0 || all("text.unit", chart).length < axes) say("an axis has no title", chart);
    if (!chart.querySelector(":scope > desc")?.textContent) say("it is not described", chart);
    const table = chart.closest("section")?.querySelector("table");
    if (!table) say("no table has its figures", chart);
    for (const part of all(".line, .mark, .held, .stuck, .ready", chart)) {
      const style = getComputedStyle(part);
      against(part.closest("figure"), style.stroke === "none" ? style.fill : style.stroke, 3, "a line");
    }
    for (const way of ["x", "y"]) {
      const ticks = all(`g.axis-${way} text`, chart).map((of) => {
        const box = of.getBoundingClientRect();
        return [figure(of.textContent), way === "x" ? box.x + box.width / 2 : box.y + box.height / 2];
      });
      if (ticks.length < 2) continue;
      const [[low, from], [high, to]] = [ticks[0], ticks.at(-1)];
      const isLog = low > 0 && high / low >= 10 && chart.querySelector(`g.axis-${way}`).dataset.log !== undefined;
      const value = (at) => {
        const share = (at - from) / (to - from);
        return isLog ? low * (high / low) ** share : low + share * (high - low);
      };
      for (const mark of all(`[data-on=${way}] > .mark`, chart)) {
        const title = mark.parentElement.querySelector("title")?.textContent ?? "";
        const told = figure(title.slice(title.lastIndexOf(": ") + 2));
        const box = mark.getBoundingClientRect();
        const is = value(way === "x" ? box.x + box.width / 2 : box.y + box.height / 2);
        const room = isLog ? Math.abs(Math.log(is / told)) < 0.02 * Math.log(high / low) : Math.abs(is - told) < 0.02 * Math.abs(high - low);
        if (!room) faults.push(`'${title}' is drawn at ${is}`);
      }
    }
  }

  // Structure: landmarks, headings, tables, names.
  for (const mark of ["header", "main", "footer"]) {
    if (all(`body > ${mark}`).length !== 1) faults.push(`there is not one ${mark}`);
  }
  let level = 0;
  for (const of of all("h1, h2, h3, h4")) {
    const own = Number(of.localName[1]);
    if (own > level + 1) say(`a heading of level ${own} follows one of level ${level}`, of);
    level = own;
  }
  if (all("h1").length !== 1) faults.push("there is not one h1");
  const ids = all("[id]").map((of) => of.id);
  if (new Set(ids).size < ids.length) faults.push("two parts have one id");
  for (const of of all('a[href^="#"]')) if (!document.getElementById(of.hash.slice(1))) say("a link leads nowhere", of);
  for (const table of all("table")) {
    if (all("th:not([scope])", table).length || !table.querySelector("th[scope=col]")) say("a header cell has no scope", table);
    if (all("tbody tr", table).some((row) => !row.querySelector("th"))) say("a row has no header", table);
    const wide = all("thead th", table).length;
    if (all("tbody tr:not(.group)", table).some((row) => row.children.length !== wide)) say("a row has more or fewer cells", table);
  }
  return [...new Set(faults)];
})()
