
// Names of clusters and labels of nodes that the reader types, and the command that trains with
// them. All is kept while the page is open.
const command = document.getElementById("command"), start = command && command.dataset.start;
const isPython = start && !start.startsWith("graphgym-srnc ");
const inputs = [...document.querySelectorAll("input[data-name]")];
const corrected = new Map();  // class by node
const batches = [];  // nodes that were labelled at once
const ofFound = document.querySelector("#label-found input"), labelFound = document.querySelector("#label-found button");
const undo = document.getElementById("label-undo");
const many = (count, noun) => count.toLocaleString("en") + " " + noun + (count === 1 ? "" : "s");
let isSaved = true;

// Why a name cannot be a class; "" if it can.
function problem(name) {
  if (/^[+-]?\d+$/.test(name)) return "A name must not be a number.";
  if (name === "unknown") return "A name must not be: unknown.";
  return /\p{C}/u.test(name) ? "A name must not have characters that are not printable." : "";
}

// A word as a shell reads it, as Python's shlex.quote writes it.
const quoted = word => /^[\w@%+=:,./-]+$/.test(word) ? word : "'" + word.replaceAll("'", `'"'"'`) + "'";

function written() {
  const names = [...named];
  if (isPython) return `${start}(${JSON.stringify(Object.fromEntries(names))})`;
  const words = names.flatMap(([number, name]) => ["--name", quoted(number + "=" + name)]);
  if (corrected.size) words.push("--labels", "labels.csv");
  return [start, ...(words.length ? words : ["--name", "1=NAME"]), "--labels-out", "NEXT"].join(" ");
}

// Take the name of an input for its cluster, which may have other inputs.
function take(input) {
  const name = input.value.trim(), why = name && problem(name), number = input.dataset.name;
  input.setCustomValidity(why);
  if (why) return input.reportValidity();
  if (name) named.set(number, name); else named.delete(number);
  inputs.filter(other => other !== input && other.dataset.name === number).forEach(other => { other.value = name; });
  changed();
}

function changed() {
  command.textContent = written();
  document.getElementById("named").textContent =
    [many(named.size, "cluster") + " named", ...(corrected.size ? [many(corrected.size, "node") + " labelled"] : [])].join(", ");
  document.getElementById("labels-csv").hidden = !corrected.size;
  const known = new Set([...document.querySelectorAll("#classes option")].map(option => option.value));
  for (const name of [...named.values(), ...corrected.values()]) {
    if (!known.has(name)) made("option", undefined, document.getElementById("classes")).value = name;
    known.add(name);
  }
  searched();
  redraw();
}

// A field for the label of a node on its card.
label = (node, fact) => {
  if (!start || isPython) return;
  const field = document.createElement("input");
  field.value = corrected.get(node) || "";
  [field.placeholder, field.maxLength, field.ariaLabel] = ["class", 100, "your label of this node"];
  field.setAttribute("list", "classes");
  field.addEventListener("change", () => {
    const name = checked(field);
    if (name === null) return;
    if (name) corrected.set(node, name); else corrected.delete(node);
    isSaved = false;
    changed();
  });
  fact("your label", field);
};

// The name in a field; null if it cannot be a class.
function checked(field) {
  const name = field.value.trim();
  field.setCustomValidity(problem(name));
  return field.reportValidity() ? name : null;
}

// Nodes that were found and have no label, neither in the data nor from the reader.
const free = () => [...hits || []].filter(node => !given[node] && !corrected.has(node));

function offer() {
  const count = free().length, batch = batches.at(-1);
  labelFound.parentElement.hidden = !count;
  labelFound.textContent = `name all ${count.toLocaleString("en")} found`;
  undo.hidden = !batch;
  if (batch) undo.textContent = `undo: ${many(batch.nodes.length, "node")} named ${batch.name}`;
  if (!hits) return;
  const left = hits.size - count;
  at("found").textContent =
    hits.size.toLocaleString("en") + " found" + (left ? `, ${left.toLocaleString("en")} with a label` : "");
}

function nameFound() {
  const name = checked(ofFound), nodes = free();
  if (!name) return ofFound.focus();
  nodes.forEach(node => corrected.set(node, name));
  batches.push({name, nodes});
  ofFound.value = "";
  relabelled();
}

// Labels that were changed since then stay.
function undoBatch() {
  const {name, nodes} = batches.pop();
  nodes.filter(node => corrected.get(node) === name).forEach(node => corrected.delete(node));
  relabelled();
}

// Labels of many nodes changed, perhaps that of the card.
function relabelled() {
  isSaved = false;
  changed();
  if (!card.hidden) show(carded);
}

if (start) {
  for (const input of inputs) {
    input.hidden = false;
    if (input.value && !problem(input.value)) named.set(input.dataset.name, input.value);
    input.addEventListener("change", () => { isSaved = false; take(input); });
  }
  document.getElementById("copy").addEventListener("click", () => {
    getSelection().selectAllChildren(command);
    document.execCommand("copy");  // works from a file, too
    isSaved = true;
  });
  document.getElementById("labels-csv").addEventListener("click", () => {
    const nodes = large(data.nodes);
    const lines = [...corrected].map(([node, name]) => [String(nodes[node]), data.ids[node], data.titles[node], name]);
    save("labels.csv", [["node", "id", "title", "new_label"], ...lines]);
    isSaved = true;
  });
  if (!isPython) searched = offer;
  labelFound.addEventListener("click", nameFound);
  ofFound.addEventListener("keydown", event => { if (event.key === "Enter") nameFound(); });
  undo.addEventListener("click", undoBatch);
  addEventListener("beforeunload", event => { if (!isSaved) event.preventDefault(); });
  document.getElementById("naming").hidden = false;
  changed();
}

// The list of clusters: point at one to see it on the map, and click it to go there.
for (const item of document.querySelectorAll("#groups [data-group]")) {
  const group = Number(item.dataset.group);
  item.addEventListener("pointerenter", () => { focus = group; redraw(); });
  item.addEventListener("pointerleave", () => { focus = -1; redraw(); });
  item.querySelector("button").addEventListener("click", () => { goToGroup(group); canvas.scrollIntoView({block: "nearest"}); });
}
document.getElementById("nodes").hidden = false;
fillList();
})();
