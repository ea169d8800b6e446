
// The card of a node, and the list of nodes, which continue the script of the map.
// names.js follows it.
const LEAST_SHARE = 0.005, PAGE = 50, SHORT = 60;
const best = numbers(data.best), share = numbers(data.share), given = numbers(data.given);
const starts = large(data.starts), ends = large(data.ends), degree = large(data.degree);
const wordsOf = large(data.wordsOf);
const perNode = count ? wordsOf.length / count : 0;
const shownAt = new Map([...large(data.nodes)].map((node, i) => [node, i]));
const classes = data.colourings[1].names, card = document.getElementById("card"), groups = document.getElementById("groups");
const made = (tag, text, parent) => {
  const one = document.createElement(tag);
  if (text !== undefined) one.textContent = text;
  if (parent) parent.append(one);
  return one;
};
// The name of a node in a list: without a title, the start of its text tells nodes apart.
const brief = node => {
  const text = data.titles[node] ? "" : data.texts[node];
  if (!text) return name(node);
  return name(node) + ": " + (text.length > SHORT ? text.slice(0, SHORT - 1) + "…" : text);
};
const address = node => data.urls && data.urls[node];

function titled(node, parent, tag) {
  const title = made(tag, undefined, parent);
  if (!address(node)) return title.append(name(node));
  const link = made("a", name(node), title);
  link.href = address(node);
  link.rel = "noreferrer";
  link.target = "_blank";
}

let label = (node, fact) => {};  // adds a field for a label to a card, see names.js
let carded = -1;  // the node whose card was shown last

show = node => {
  if (node < 0) return;
  carded = node;
  card.replaceChildren();
  card.hidden = false;
  groups.hidden = true;
  titled(node, card, "h3");
  if (data.texts[node]) made("p", data.texts[node], card);
  const facts = made("dl", undefined, card);
  const fact = (name, ...value) => {
    made("dt", name, facts);
    made("dd", undefined, facts).append(...value);
  };
  const guesses = [];
  for (let k = node * data.choices; k < (node + 1) * data.choices; k++) {
    const part = share[k] / SIDE;
    if (part >= LEAST_SHARE || !guesses.length) guesses.push(classes[best[k]] + " " + part.toFixed(2));
  }
  fact("prediction", guesses.join(", "));
  if (data.dates) fact("date", data.dates[node] || "unknown");
  if (given[node]) fact("label in the data", classes[given[node] - 1]);
  label(node, fact);
  fact("cluster", cluster.names[cluster.of[node]]);
  fact(data.head, (p[node] / SIDE).toFixed(2));
  const own = wordsOf.subarray(node * perNode, (node + 1) * perNode).filter(word => word);
  if (data.words.length) fact("words typical of its cluster", [...own].map(word => data.words[word - 1]).join(", ") || "none");
  near(node, fact);
  const back = made("button", "back to the clusters", card), place = made("button", "show on the map", card);
  back.type = "button";
  back.addEventListener("click", () => { card.hidden = true; groups.hidden = false; tell(-1); });
  place.type = "button";
  place.addEventListener("click", () => { goTo(node); canvas.scrollIntoView({block: "center"}); });
};

// Show the card of a node that was chosen in a list, and a ring around its dot on the map.
function mark(node) {
  show(node);
  tell(node);
  card.scrollIntoView({block: "nearest"});
}

// Neighbours of a node, and how their labels are distributed.
function near(node, fact) {
  const all = [...ends.subarray(starts[node], starts[node + 1])], labelled = new Map();
  for (const other of all.filter(other => given[other])) {
    const label = classes[given[other] - 1];
    labelled.set(label, (labelled.get(label) || 0) + 1);
  }
  const counts = [...labelled].sort((a, b) => b[1] - a[1]).map(([label, many]) => many + " " + label);
  fact("labels of neighbours", counts.join(", ") || "none has a label");
  const list = document.createElement("span");
  for (const other of all) {
    const one = made("button", brief(other) + (given[other] ? " (" + classes[given[other] - 1] + ")" : ""), list);
    one.type = "button";
    one.addEventListener("click", () => mark(other));
  }
  if (degree[node] > all.length) list.append(" and " + (degree[node] - all.length).toLocaleString("en") + " more");
  if (all.length) fact("neighbours", list);
}

// The list: filtered by the search and by a cluster, sorted by a column.
const COLUMNS = [
  ["node", name], ["cluster", i => cluster.names[cluster.of[i]]],
  ["class", i => classes[data.colourings[1].of[i]]], [data.head, i => p[i] / SIDE, data.meaning],
  ["typical", i => typical[i] / SIDE, "how typical the node is of its cluster, from 0 to 1"],
];
const rows = document.querySelector("#list tbody"), heads = document.querySelector("#list thead tr");
const choose = document.getElementById("list-cluster"), text = document.getElementById("list-find");
let sorted = 3, down = true, most = PAGE, listed = [];

function fillList() {
  const wanted = choose.value, searched = text.value.trim().toLowerCase();
  listed = [...Array(count).keys()].filter(i => words[i].includes(searched)
    && (wanted === "all" || (wanted === "new" ? isNew(cluster.of[i]) : cluster.of[i] === Number(wanted))));
  const value = COLUMNS[sorted][1], sign = down ? -1 : 1;
  const keys = new Map(listed.map(i => [i, value(i)]));
  listed.sort((a, b) => {
    const [one, other] = [keys.get(a), keys.get(b)];
    return sign * (typeof one === "number" ? one - other : one.localeCompare(other)) || a - b;
  });
  rows.replaceChildren();
  for (const i of listed.slice(0, most)) {
    const line = made("tr", undefined, rows);
    const first = made("td", undefined, line), opens = made("button", brief(i), first);
    opens.type = "button";
    opens.addEventListener("click", () => mark(i));
    first.className = "text";
    COLUMNS.slice(1).forEach(([, get], k) => {
      const cell = get(i), one = made("td", typeof cell === "number" ? cell.toFixed(2) : cell, line);
      if (typeof cell !== "number") one.className = "text";
      one.dataset.head = COLUMNS[k + 1][0];
    });
  }
  document.getElementById("list-count").textContent =
    Math.min(most, listed.length).toLocaleString("en") + " of " + listed.length.toLocaleString("en") + " nodes";
  document.getElementById("list-more").hidden = most >= listed.length;
  [...heads.children].forEach((head, k) =>
    head.setAttribute("aria-sort", k !== sorted ? "none" : down ? "descending" : "ascending"));
}

// Save lines of cells as CSV. Cells that a spreadsheet would execute get an apostrophe, as in tables
// of the commands; ids such as -1 and @user stay.
function save(file, lines) {
  const harmless = /^([+-][\d., ]*\d|@[\w./-]+)$/;
  const guard = text => harmless.test(text) ? text : text.replace(/^(?=[\s"]*[=+@-])/, "'");
  const cell = value => {
    const guarded = typeof value === "number" ? value.toFixed(4) : guard(value);
    return /[",\n]/.test(guarded) ? '"' + guarded.replaceAll('"', '""') + '"' : guarded;
  };
  const link = document.createElement("a"), csv = lines.map(line => line.map(cell).join(",") + "\n").join("");
  link.href = URL.createObjectURL(new Blob(["\ufeff" + csv], {type: "text/csv"}));
  link.download = file;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

COLUMNS.forEach(([title, , meaning], k) => {
  const head = made("th", undefined, heads), sorts = made("button", title, head);
  if (meaning) head.title = meaning;
  head.scope = "col";
  sorts.type = "button";
  sorts.addEventListener("click", () => {
    down = k === sorted ? !down : k > 2;
    sorted = k;
    fillList();
  });
});
for (const [value, title] of [["new", data.all], ["all", "all nodes"]]) {
  made("option", title, choose).value = value;
}
for (const group of cluster.order.filter(group => cluster.sizes[group])) {
  made("option", cluster.names[group], choose).value = group;
}
choose.addEventListener("change", () => { most = PAGE; fillList(); });
text.addEventListener("input", () => { most = PAGE; fillList(); });
document.getElementById("list-more").addEventListener("click", () => { most += 4 * PAGE; fillList(); });
document.getElementById("list-csv").addEventListener("click", () => {
  const numbers = large(data.nodes), own = [["node", i => String(numbers[i])], ["id", i => data.ids[i]], ["title", i => data.titles[i]]];
  const columns = [...own, ...COLUMNS.slice(1), ["text", i => data.texts[i]]];
  save("nodes.csv", [columns.map(([name]) => name), ...listed.map(i => columns.map(([, get]) => get(i)))]);
});
for (const link of document.querySelectorAll("[data-node]")) {
  const at = shownAt.get(Number(link.dataset.node));
  if (at !== undefined) link.addEventListener("click", () => mark(at));
}
