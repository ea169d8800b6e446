// The map of a page of `discover`. Names and texts are shown as text, never as HTML.
// nodes.js follows it in one script, with the cards and the list of nodes.
"use strict";
(() => {
const at = name => document.getElementById("map-" + name);
const data = JSON.parse(at("data").textContent);
const canvas = at("canvas"), pen = canvas.getContext("2d"), tip = at("tip"), legend = at("legend");
const SIDE = 65535, CLOSEST = 1000, ROUND = 20000, REACH = 24, STRIDE = 1000003;
const GRID = 128, MARGIN = 6000, RINGS = 10, CLOSE = 4, FEW = 200;  // of the glow, its edge, labels and titles

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
const isNew = group => !cluster.pale.includes(group);
const typical = numbers(data.typical);

// `hits` are the nodes that were found, in order; null = nothing is searched. `focus` is the group
// that is pointed at in the list of groups; -1 = none. `named` are names that were typed, by number.
const named = new Map();
let glow = null, focus = -1;
let colouring = cluster, hidden = new Set(), hits = null, nextHit = 0;
let middleX = SIDE / 2, middleY = SIDE / 2, zoom = 1, told = -1, waiting = false;
let seen = new Uint32Array(count), numSeen = 0, width = 1, height = 1;

// A dark colour is lightened on a dark page.
const dark = matchMedia("(prefers-color-scheme: dark)");
const parts = colour => [1, 3, 5].map(k => parseInt(colour.slice(k, k + 2), 16));
const visible = colour => {
  const [red, green, blue] = parts(colour);
  if (!dark.matches || 0.3 * red + 0.6 * green + 0.1 * blue > 80) return colour;
  const lighter = [red, green, blue].map(one => Math.round(one + 0.3 * (255 - one)));
  return "#" + lighter.map(one => one.toString(16).padStart(2, "0")).join("");
};

// A label: the name that was typed for its group, or else its text.
const called = (group, text) => {
  const number = text.split(":")[0];
  const typed = isNew(group) && named.get(number);
  return typed ? `${number}: ${typed}` : text;
};

// A colour with the contrast of text on the paper, darker or on a dark page lighter than another.
const light = rgb => rgb.map(v => v / 255)
  .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
  .reduce((sum, v, k) => sum + v * [0.2126, 0.7152, 0.0722][k], 0.05);
const legible = colour => {
  const end = dark.matches ? 255 : 0, paper = dark.matches ? 0.06 : 1.05;
  let rgb = parts(colour);
  while (Math.max(light(rgb), paper) / Math.min(light(rgb), paper) < 4.6) rgb = rgb.map(v => v + 0.08 * (end - v));
  return `rgb(${rgb.map(Math.round)})`;
};

// Pixels of the page for a unit of the map; at zoom 1 all nodes are in sight.
const span = values => Math.max(1, values.reduce((a, b) => Math.max(a, b), 0) - values.reduce((a, b) => Math.min(a, b), SIDE));
const spanX = span(x), spanY = span(y);
const scale = () => zoom * 0.9 * Math.min(width / spanX, height / spanY);
const toScreen = (mapX, mapY) => [(mapX - middleX) * scale() + width / 2,
                                  (mapY - middleY) * scale() + height / 2];

// The more nodes, the smaller and paler their dots, so that they cover about the same share.
const dotSize = () => {
  const usual = Math.sqrt(0.03 * width * height / Math.max(count, 1));
  return Math.min(7, Math.max(0.8, Math.min(3.4, usual)) * zoom ** 0.4);
};
const paleness = () => Math.max(0.4, Math.min(0.9, 1.4 - 0.2 * Math.log10(count + 1)));

function draw() {
  waiting = false;
  const ratio = window.devicePixelRatio || 1, style = getComputedStyle(canvas);
  [width, height] = [canvas.clientWidth, canvas.clientHeight];
  const ink = style.getPropertyValue("--ink"), paper = style.getPropertyValue("--paper");
  canvas.width = width * ratio;
  canvas.height = height * ratio;
  pen.scale(ratio, ratio);
  look();

  glow = glow || makeGlow();
  pen.globalAlpha = hits || focus >= 0 ? 0.3 : 1;
  const edge = toScreen(-MARGIN, -MARGIN), side = (SIDE + 2 * MARGIN) * scale();
  pen.drawImage(glow.picture, ...edge, side, side);

  const size = dotSize();
  const shown = seen.subarray(0, numSeen), found = shown.filter(i => hits && hits.has(i));
  // Pale groups are below the others, and fainter on a dark page.
  const isPale = i => colouring.pale.includes(colouring.of[i]);
  const isFar = i => focus >= 0 && cluster.of[i] !== focus;
  pen.globalAlpha = hits ? 0.2 : paleness() * (dark.matches ? 0.5 : 1);
  if (focus >= 0) pen.globalAlpha = 0.12;
  dots(shown.filter(i => isPale(i) || isFar(i)), size);
  pen.globalAlpha = hits ? 0.2 : 0.9;
  // New clusters are few of the nodes, so their dots are larger, and apart from each other.
  pen.strokeStyle = paper;
  pen.lineWidth = 0.6;
  const strong = shown.filter(i => !isPale(i) && !isFar(i));
  dots(strong, colouring.pale.length ? 1.3 * size + 0.3 : size, size > 1.5 && !hits);
  pen.globalAlpha = 1;
  pen.lineWidth = 1;
  pen.strokeStyle = ink;
  dots(found, size + 1.5, true);

  const placed = [];
  if (colouring === cluster || colouring === data.colourings[1]) labels(placed, paper);
  titles(placed, size, ink, paper);
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

// A soft picture of where nodes are dense, in the colours of their groups, and this density, in
// which new clusters count more, for labels. It is made once for a colouring and its hidden groups.
function makeGlow() {
  const picture = document.createElement("canvas"), cells = GRID * GRID;
  const sums = [0, 1, 2, 3, 4].map(() => new Float32Array(cells));
  const colours = colouring.colours.map(colour => parts(visible(colour)));
  const cell = value => Math.floor((value + MARGIN) * GRID / (SIDE + 2 * MARGIN));
  for (let i = 0; i < count; i++) {
    if (hidden.has(colouring.of[i])) continue;
    const at = cell(y[i]) * GRID + cell(x[i]);
    colours[colouring.of[i]].forEach((part, k) => { sums[k][at] += part; });
    sums[3][at] += 1;
    sums[4][at] += cluster.pale.includes(cluster.of[i]) ? 1 : 6;
  }
  for (const sum of sums) for (let k = 0; k < 3; k++) [1, GRID].forEach(step => blur(sum, step));
  const [red, green, blue, all, dense] = sums;
  // The density that a dot and its neighbours would have if all were spread over a tenth of the map.
  const usual = 10 * count / cells;
  picture.width = picture.height = GRID;
  const image = picture.getContext("2d").createImageData(GRID, GRID);
  for (let k = 0; k < cells; k++) {
    const here = Math.max(all[k], 1e-9);
    const shade = (dark.matches ? 80 : 100) * (1 - Math.exp(-all[k] / usual));
    image.data.set([red[k] / here, green[k] / here, blue[k] / here, shade], 4 * k);
  }
  picture.getContext("2d").putImageData(image, 0, 0);
  return {picture, dense, most: Math.max(1e-9, dense.reduce((a, b) => Math.max(a, b), 0)), cell};
}

// The mean of each value of a grid and its two neighbours on both sides, along rows or columns.
function blur(grid, step) {
  const line = new Float32Array(GRID);
  for (let k = 0; k < GRID; k++) {
    const start = step === 1 ? k * GRID : k;
    for (let j = 0; j < GRID; j++) line[j] = grid[start + j * step];
    for (let j = 2; j < GRID - 2; j++) {
      grid[start + j * step] = (line[j - 2] + line[j - 1] + line[j] + line[j + 1] + line[j + 2]) / 5;
    }
  }
}

// How much a box of the page covers: 0 = nothing, 1 = the densest part of the map.
function covered(left, top, half, high) {
  let sum = 0;
  for (const right of [-0.9, -0.45, 0, 0.45, 0.9]) {
    for (const down of [-0.4, 0, 0.4]) {
      const column = glow.cell((left + right * half - width / 2) / scale() + middleX);
      const row = glow.cell((top + down * high - height / 2) / scale() + middleY);
      const isInside = column >= 0 && row >= 0 && column < GRID && row < GRID;
      if (isInside) sum += Math.sqrt(glow.dense[row * GRID + column] / glow.most) / 15;
    }
  }
  return sum;
}

// The best place of a label near a point of the page: close to it, over few nodes, inside the map
// and apart from other labels; undefined if there is none.
function room(left, top, half, high, weight, rings, placed) {
  let best, least = Infinity;
  for (let ring = 0; ring < rings; ring++) {
    for (let k = 0; k < (ring ? 12 : 1); k++) {
      const turn = (k - 3) * Math.PI / 6;  // upwards first
      const wanted = left + ring * 18 * Math.cos(turn);
      const one = {half, high, y: top + ring * 12 * Math.sin(turn)};
      one.x = Math.max(half + 2, Math.min(width - half - 2, wanted));
      const isInside = one.y - high / 2 > 1 && one.y + high / 2 < height - 1 && one.x - half > 0;
      if (!isInside || placed.some(other => Math.abs(one.x - other.x) < half + other.half + 3
          && Math.abs(one.y - other.y) < (high + other.high) / 2 + 1)) continue;
      const cost = 0.35 * ring + weight * covered(one.x, one.y, half, high);
      if (cost < least) [best, least] = [one, cost];
    }
  }
  return best;
}

// Words in lines of about equal length, at most two.
function wrapped(text) {
  const middle = text.length / 2;
  const gaps = [...text].map((letter, k) => letter === " " ? k : -1).filter(k => k > 2);
  if (text.length < 22 || !gaps.length) return [text];
  const gap = gaps.reduce((a, b) => Math.abs(b - middle) < Math.abs(a - middle) ? b : a);
  return [text.slice(0, gap), text.slice(gap + 1)];
}

function write(lines, at, line) {
  lines.forEach((text, k) => {
    const y = at.y - at.high / 2 + (k + 0.8) * line;
    pen.strokeText(text, at.x, y);
    pen.fillText(text, at.x, y);
  });
}

// Names of groups, the larger the more nodes they have: new clusters in their colours, the largest
// first, then known classes, and then further places of a group if there is room close by. A thin
// line leads to a group from a label that lies beside it.
function labels(placed, paper) {
  const largest = Math.max(1, ...data.marks.map(mark => mark[5]));
  const small = Math.max(0.75, Math.min(1, width / 900));
  const shown = [], labelled = new Set();
  pen.textAlign = "center";
  pen.lineJoin = "round";
  for (const [mapX, mapY, group, text, , nodes] of data.marks) {
    const [left, top] = toScreen(mapX, mapY);
    if (colouring === cluster && hidden.has(group) || left < 0 || left > width || top < 0 || top > height) continue;
    const share = Math.sqrt(nodes / largest);
    const size = Math.round(small * (isNew(group) ? 17 + 8 * share : 12 + 6 * share));
    const font = `${isNew(group) ? 700 : 500} ${size}px system-ui, sans-serif`;
    pen.font = font;
    const lines = wrapped(called(group, text)), line = 1.15 * size, high = line * lines.length;
    const half = Math.max(...lines.map(text => pen.measureText(text).width)) / 2 + 3;
    const at = room(left, top, half, high, isNew(group) ? 9 : 6, labelled.has(group) ? CLOSE : RINGS, placed);
    labelled.add(group);
    if (!at) continue;
    placed.push(at);
    const colour = legible(cluster.colours[group]);
    const faint = focus < 0 || focus === group ? 1 : 0.25;
    shown.push({lines, at, line, font, colour, faint, size});
    const ends = [Math.max(at.x - half, Math.min(at.x + half, left)),
                  Math.max(at.y - high / 2, Math.min(at.y + high / 2, top))];
    if (Math.hypot(ends[0] - left, ends[1] - top) < 12) continue;
    [pen.globalAlpha, pen.strokeStyle, pen.lineWidth] = [faint, colour, isNew(group) ? 1.4 : 0.7];
    pen.beginPath();
    pen.moveTo(...ends);
    pen.lineTo(left, top);
    pen.stroke();
  }
  pen.strokeStyle = paper;
  for (const {lines, at, line, font, colour, faint, size} of shown) {
    [pen.globalAlpha, pen.font, pen.fillStyle, pen.lineWidth] = [faint, font, colour, size / 4];
    write(lines, at, line);
  }
  pen.globalAlpha = 1;
}

// Titles of the most typical nodes below their dots, where few nodes are in sight.
function titles(placed, size, ink, paper) {
  if (numSeen > FEW || zoom < 2) return;
  const order = [...seen.subarray(0, numSeen)].sort((a, b) => typical[b] - typical[a]);
  pen.font = "12px system-ui, sans-serif";
  [pen.textAlign, pen.fillStyle, pen.strokeStyle, pen.lineWidth] = ["center", ink, paper, 3];
  for (const i of order) {
    const title = data.titles[i] || data.ids[i], text = title.length > 28 ? title.slice(0, 27) + "…" : title;
    const [x0, y0] = toScreen(x[i], y[i]), half = pen.measureText(text).width / 2 + 2;
    const at = {x: x0, y: y0 + size + 9, half, high: 14};
    const isFree = placed.every(other => Math.abs(at.x - other.x) >= half + other.half
      || Math.abs(at.y - other.y) >= (14 + other.high) / 2);
    if (!isFree) continue;
    placed.push(at);
    write([text], at, 14);
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

// The picture changes; the glow too if groups were hidden or shown, or have other colours.
function redraw(isOther = false) {
  if (isOther) glow = null;
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
  searched();
  redraw();
}

let searched = () => {};  // offers to label the nodes that were found, see names.js

function showNext() {
  if (!hits || !hits.size) return;
  goTo([...hits][nextHit++ % hits.size]);
}

function goTo(node) {
  [middleX, middleY, zoom] = [x[node], y[node], Math.max(zoom, 6)];
  tell(node);
  redraw();
}

// Show the middle part of a group on the whole map.
function goToGroup(group) {
  const inside = [...seen.keys()].filter(i => cluster.of[i] === group);
  if (!inside.length) return;
  const middle = values => {
    const sorted = inside.map(i => values[i]).sort((a, b) => a - b);
    return [0.1, 0.9].map(share => sorted[Math.floor(share * (sorted.length - 1))]);
  };
  const [left, right] = middle(x), [top, bottom] = middle(y);
  [middleX, middleY] = [(left + right) / 2, (top + bottom) / 2];
  zoom = Math.max(1, Math.min(40, 0.5 * SIDE / Math.max(right - left, bottom - top, 1)));
  redraw();
}

function list() {
  const sizes = colouring.sizes;
  const button = (text, pressed, click) => {
    const made = legend.appendChild(document.createElement("button"));
    made.type = "button";
    made.append(text);
    if (pressed !== null) made.setAttribute("aria-pressed", pressed);
    made.addEventListener("click", () => { click(made); tell(-1); redraw(true); });
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
  redraw(true);
});
dark.addEventListener("change", () => { list(); redraw(true); });
new ResizeObserver(() => redraw()).observe(canvas);
at("tools").hidden = at("box").hidden = false;
list();
