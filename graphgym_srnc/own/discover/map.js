// The map of a page of `discover`. Names and texts are shown as text, never as HTML.
// nodes.js follows it in one script, with the cards and the list of nodes.
"use strict";
(() => {
const at = name => document.getElementById("map-" + name);
const data = JSON.parse(at("data").textContent);
const canvas = at("canvas"), pen = canvas.getContext("2d"), tip = at("tip"), legend = at("legend");
const SIDE = 65535, CLOSEST = 1000, ROUND = 20000, REACH = 24, STRIDE = 1000003, LINE = 25;

const bytes = text => Uint8Array.from(atob(text), c => c.charCodeAt(0)).buffer;
const numbers = text => new Uint16Array(bytes(text)), large = text => new Uint32Array(bytes(text));
const x = numbers(data.x), y = numbers(data.y), p = numbers(data.p), count = x.length;
for (const colouring of data.colourings) colouring.of = numbers(colouring.of);
const cluster = data.colourings[0];
const words = data.ids.map((id, i) => [id, data.titles[i], data.texts[i]].join(" ").toLowerCase());
const plainly = text => text.replaceAll("_", " ").toLowerCase();
const name = i => {
  const [id, title] = [data.ids[i], data.titles[i]];
  if (!title) return id;
  return plainly(id) === plainly(title) ? title : `${id}: ${title}`;
};
const dotSize = count > 20000 ? 1 : count > 4000 ? 1.6 : 2.4;

// `hits` are the nodes that were found, in order; null = nothing is searched.
let colouring = cluster, hidden = new Set(), hits = null, nextHit = 0;
let middleX = SIDE / 2, middleY = SIDE / 2, zoom = 1, told = -1, waiting = false;
let seen = new Uint32Array(count), numSeen = 0, width = 1, height = 1;

// A dark colour is lightened on a dark page.
const dark = matchMedia("(prefers-color-scheme: dark)");
const visible = colour => {
  const [red, green, blue] = [1, 3, 5].map(k => parseInt(colour.slice(k, k + 2), 16));
  if (!dark.matches || 0.3 * red + 0.6 * green + 0.1 * blue > 80) return colour;
  return `rgb(${[red, green, blue].map(one => Math.round(one + 0.3 * (255 - one)))})`;
};

// Pixels of the page for a unit of the map; at zoom 1 all of it is in sight.
const scale = () => zoom * 0.94 * Math.min(width, height) / SIDE;
const toScreen = (mapX, mapY) => [(mapX - middleX) * scale() + width / 2,
                                  (mapY - middleY) * scale() + height / 2];

function draw() {
  waiting = false;
  const ratio = window.devicePixelRatio || 1, style = getComputedStyle(canvas);
  [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const ink = style.getPropertyValue("--ink"), paper = style.getPropertyValue("--paper");
  const soft = style.getPropertyValue("--soft");
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  pen.scale(ratio, ratio);
  look();

  const size = Math.min(7, dotSize * zoom ** 0.4);
  const shown = seen.subarray(0, numSeen), found = shown.filter(i => hits && hits.has(i));
  // Pale groups are below the others, and fainter on a dark page.
  const isPale = i => colouring.pale.includes(colouring.of[i]);
  pen.globalAlpha = hits ? 0.2 : dark.matches ? 0.35 : 0.9;
  dots(shown.filter(isPale), size);
  pen.globalAlpha = hits ? 0.2 : 0.9;
  // New clusters are few of the nodes, so their dots are larger.
  dots(shown.filter(i => !isPale(i)), colouring.pale.length ? 1.4 * size : size);
  pen.globalAlpha = 1;
  pen.strokeStyle = ink;
  dots(found, size + 1.5, true);

  if (colouring === cluster || colouring === data.colourings[1]) labels(ink, soft, paper);
  if (told >= 0) {
    pen.strokeStyle = ink;
    pen.lineWidth = 2;
    pen.beginPath();
    pen.arc(...toScreen(x[told], y[told]), size + 3, 0, 7);
    pen.stroke();
  }
  place();
  canvas.dataset.drawn = count;
}

// Names of new clusters in frames of their colour, the largest first, then those of known classes
// without a frame. A label that would cover another one moves up or down, and is left out if that
// does not help.
function labels(ink, soft, paper) {
  pen.textAlign = "center";
  pen.lineJoin = "round";
  const placed = [];
  for (const [mapX, mapY, group, text, isNew] of data.marks) {
    pen.font = isNew ? "600 14px system-ui, sans-serif" : "13px system-ui, sans-serif";
    const [middle, edge] = toScreen(mapX, mapY), top = Math.max(LINE, edge - 12);
    const half = pen.measureText(text).width / 2 + 8;
    if (colouring === cluster && hidden.has(group) || middle < 0 || middle > width || edge < 0 || edge > height) continue;
    const left = Math.max(half + 2, Math.min(width - half - 2, middle));
    const free = [0, -LINE, LINE, -2 * LINE, 2 * LINE].map(down => top + down).find(y =>
      y > 16 && y < height - 8 && placed.every(other =>
        Math.abs(left - other.left) >= half + other.half + 4 || Math.abs(y - other.y) >= LINE));
    if (free === undefined) continue;
    placed.push({left, half, y: free});
    pen.globalAlpha = isNew ? 0.92 : 0.6;
    pen.fillStyle = paper;
    pen.fillRect(left - half, free - 15, 2 * half, 21);
    pen.globalAlpha = 1;
    if (isNew) {
      pen.lineWidth = 2;
      pen.strokeStyle = visible(data.colourings[0].colours[group]);
      pen.strokeRect(left - half, free - 15, 2 * half, 21);
    }
    pen.fillStyle = isNew ? ink : soft;
    pen.fillText(text, left, free);
  }
}

// Squares, which are drawn faster, where there are many.
function dots(nodes, size, ringed = false) {
  const colours = colouring.colours.map(visible);
  for (const i of nodes) {
    const [left, top] = toScreen(x[i], y[i]);
    pen.fillStyle = colours[colouring.of[i]];
    if (nodes.length > ROUND) {
      pen.fillRect(left - size, top - size, 2 * size, 2 * size);
      continue;
    }
    pen.beginPath();
    pen.arc(left, top, size, 0, 7);
    pen.fill();
    if (ringed) pen.stroke();
  }
}

// Which nodes are in sight, in an order that hides no group behind another.
function look() {
  const halfX = width / 2 / scale(), halfY = height / 2 / scale();
  numSeen = 0;
  for (let k = 0; k < count; k++) {
    const i = k * STRIDE % count;
    if (Math.abs(x[i] - middleX) < halfX && Math.abs(y[i] - middleY) < halfY
        && !hidden.has(colouring.of[i])) seen[numSeen++] = i;
  }
}

function redraw() {
  if (!waiting) requestAnimationFrame(draw);
  waiting = true;
}

// Move by pixels of the page, then zoom about a point of it; false if nothing changed.
function move(right, down, factor = 1, left = width / 2, top = height / 2) {
  const before = [middleX, middleY, zoom].join();
  const fromX = left - width / 2, fromY = top - height / 2;
  const within = (value, most) => Math.max(0, Math.min(most, value));
  let mapX = middleX - right / scale() + fromX / scale();
  let mapY = middleY - down / scale() + fromY / scale();
  zoom = Math.max(1, Math.min(CLOSEST, zoom * factor));
  middleX = within(mapX - fromX / scale(), SIDE);
  middleY = within(mapY - fromY / scale(), SIDE);
  if (zoom === 1 && factor < 1) middleX = middleY = SIDE / 2;
  redraw();
  return before !== [middleX, middleY, zoom].join();
}

// The node in sight that is nearest to a point of the page, -1 if none is near.
function nearest(left, top, reach) {
  let best = -1, least = (reach / scale()) ** 2;
  const mapX = middleX + (left - width / 2) / scale();
  const mapY = middleY + (top - height / 2) / scale();
  for (let k = 0; k < numSeen; k++) {
    const i = seen[k], far = (x[i] - mapX) ** 2 + (y[i] - mapY) ** 2;
    if (far < least) [best, least] = [i, far];
  }
  return best;
}

function tell(node) {
  if (node === told) return;
  told = node;
  tip.replaceChildren();
  const line = (tag, text) => tip.appendChild(document.createElement(tag)).textContent = text;
  if (node >= 0) {
    line("b", name(node));
    if (data.texts[node]) line("div", data.texts[node]);
    const facts = data.colourings.slice(0, 2).map(one => [one.by, one.names[one.of[node]]]);
    facts.push([data.head, (p[node] / SIDE).toFixed(2)]);
    for (const [name, value] of facts) line("div", name + ": " + value);
  }
  redraw();
}

// Put the tip beside its node, or away if that is out of sight.
function place() {
  const [left, top] = told < 0 ? [-1, -1] : toScreen(x[told], y[told]);
  tip.hidden = left < 0 || top < 0 || left > width || top > height;
  const wide = tip.offsetWidth, high = tip.offsetHeight;
  const right = left + 14 + wide < width ? left + 14 : left - 14 - wide;
  tip.style.left = Math.max(0, right) + "px";
  tip.style.top = Math.max(0, Math.min(top + 14, height - high)) + "px";
}

function find() {
  const wanted = at("find").value.trim().toLowerCase();
  hits = wanted ? new Set() : null;
  if (hits) words.forEach((text, i) => { if (text.includes(wanted)) hits.add(i); });
  nextHit = 0;
  at("found").textContent = hits ? hits.size.toLocaleString("en") + " found" : "";
  redraw();
}

function showNext() {
  if (!hits || !hits.size) return;
  goTo([...hits][nextHit++ % hits.size]);
}

function goTo(node) {
  [middleX, middleY, zoom] = [x[node], y[node], Math.max(zoom, 6)];
  tell(node);
  redraw();
}

function list() {
  const sizes = colouring.sizes;
  const button = (text, pressed, click) => {
    const made = legend.appendChild(document.createElement("button"));
    made.type = "button";
    made.append(text);
    if (pressed !== null) made.setAttribute("aria-pressed", pressed);
    made.addEventListener("click", () => { click(made); tell(-1); redraw(); });
    return made;
  };
  legend.replaceChildren();
  colouring.order.forEach(group => {
    const name = colouring.names[group];
    if (!sizes[group]) return;
    const text = name + " (" + sizes[group].toLocaleString("en") + ")";
    const one = button(text, !hidden.has(group), made => {
      if (!hidden.delete(group)) hidden.add(group);
      made.setAttribute("aria-pressed", !hidden.has(group));
    });
    const colour = document.createElement("i");
    colour.style.background = visible(colouring.colours[group]);
    one.prepend(colour);
  });
  button("all", null, () => { hidden.clear(); list(); });
  button("none", null, () => { hidden = new Set(colouring.names.keys()); list(); });
}

let show = node => {};  // shows the card of a node, see nodes.js

const KEYS = {
  ArrowLeft: () => move(60, 0), ArrowRight: () => move(-60, 0),
  ArrowUp: () => move(0, 60), ArrowDown: () => move(0, -60),
  "+": () => move(0, 0, 1.5), "=": () => move(0, 0, 1.5), "-": () => move(0, 0, 1 / 1.5),
  0: () => move(0, 0, 1e-9), n: showNext, Escape: () => tell(-1), Enter: () => show(told),
};
canvas.addEventListener("keydown", event => {
  if (!KEYS[event.key] || event.ctrlKey || event.metaKey || event.altKey) return;
  event.preventDefault();
  KEYS[event.key]();
  if (["n", "Escape", "Enter"].includes(event.key)) return;
  look();
  tell(nearest(width / 2, height / 2, 1e9));
});

const fingers = new Map();
let pressed = null;  // where a pointer went down, to tell a click from a move
const spread = () => {
  const [a, b = a] = [...fingers.values()];
  return {x: (a.x + b.x) / 2, y: (a.y + b.y) / 2, far: Math.hypot(a.x - b.x, a.y - b.y) || 1};
};
const point = event => ({x: event.offsetX, y: event.offsetY});
canvas.addEventListener("pointerdown", event => {
  canvas.setPointerCapture(event.pointerId);
  fingers.set(event.pointerId, point(event));
  pressed = point(event);
  tell(nearest(event.offsetX, event.offsetY, REACH));
});
canvas.addEventListener("pointermove", event => {
  if (!fingers.has(event.pointerId)) return tell(nearest(event.offsetX, event.offsetY, REACH));
  const before = spread();
  fingers.set(event.pointerId, point(event));
  const after = spread();
  move(after.x - before.x, after.y - before.y, after.far / before.far, after.x, after.y);
});
for (const end of ["pointerup", "pointercancel"]) {
  canvas.addEventListener(end, event => fingers.delete(event.pointerId));
}
canvas.addEventListener("pointerup", event => {
  const still = pressed && Math.hypot(event.offsetX - pressed.x, event.offsetY - pressed.y) < 5;
  if (still && told >= 0) show(told);
});
canvas.addEventListener("pointerleave", event => { if (event.pointerType === "mouse") tell(-1); });
canvas.addEventListener("wheel", event => {
  // At its ends the map lets the page scroll.
  const factor = Math.exp(-event.deltaY * (event.deltaMode ? 0.05 : 0.002));
  if (move(0, 0, factor, event.offsetX, event.offsetY)) event.preventDefault();
}, {passive: false});

at("closer").addEventListener("click", () => move(0, 0, 1.5));
at("farther").addEventListener("click", () => move(0, 0, 1 / 1.5));
at("whole").addEventListener("click", () => move(0, 0, 1e-9));
at("find").addEventListener("input", find);
at("find").addEventListener("keydown", event => { if (event.key === "Enter") showNext(); });
at("next").addEventListener("click", showNext);
at("by").addEventListener("change", event => {
  colouring = data.colourings[event.target.selectedIndex];
  hidden = new Set();
  list();
  redraw();
});
dark.addEventListener("change", () => { list(); redraw(); });
new ResizeObserver(redraw).observe(canvas);
at("tools").hidden = at("box").hidden = false;
list();
