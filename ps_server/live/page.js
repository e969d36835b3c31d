// The live page: asks for api/state once a second and shows what came. Text
// from the run goes into the page as text alone, never as markup.
"use strict";

const kEvery = 1000;  // Milliseconds from an answer to the next question.
const kPatience = 5000;
const kMostPoints = 4000;
const kMostRows = 40;
const kMostEvents = 200;
const kOutcomes = ["applied", "cancelled", "dropped", "rejected", "lost"];
// What a worker's time is spent on, as `sluice goodput` has it.
const kCauses = ["applied", "cancelled", "dropped", "lost", "unfinished", "idle",
                 "absent"];
// That `sluice ui` has printed; a lead's own page has none, and no buttons.
const kToken = location.hash.slice(1);
// Who needs a look comes first.
const kOrder = ["dead", "cut off", "suspect", "missing", "waiting", "computing",
                "serving", "left"];

const byId = (id) => document.getElementById(id);
const isDark = matchMedia("(prefers-color-scheme: dark)");

function element(name, text, className) {
  const made = document.createElement(name);
  if (text !== undefined) made.textContent = text;
  if (className) made.className = className;
  return made;
}

function duration(seconds) {
  const s = Math.max(0, Math.round(seconds));
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min ${s % 60} s`;
  return `${Math.floor(s / 3600)} h ${Math.floor(s % 3600 / 60)} min`;
}

function number(value, digits = 4) {
  if (value === null || value === undefined) return "–";
  if (value !== 0 && Math.abs(value) < 1e-4) return value.toExponential(2);
  return value.toLocaleString("en", {maximumSignificantDigits: digits});
}

function bytes(value) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (value >= 1024 && unit + 1 < units.length) {
    value /= 1024;
    ++unit;
  }
  return `${number(value, 3)} ${units[unit]}`;
}

function stateClass(state) {
  if (["dead", "cut off", "failed"].includes(state)) return "bad";
  if (["suspect", "missing", "recovering", "starting"].includes(state)) {
    return "warn";
  }
  return "good";
}

// Curves.

const colour = (name) =>
    getComputedStyle(document.documentElement).getPropertyValue(`--${name}`);

function makeChart(id, type, scales) {
  return new Chart(byId(id), {
    type,
    data: {datasets: []},
    options: {
      animation: false,
      maintainAspectRatio: false,
      parsing: type === "line" ? false : undefined,
      elements: {point: {radius: 0, hitRadius: 8}, line: {borderWidth: 1.5}},
      plugins: {legend: {display: false}},
      scales,
    },
  });
}

const seconds = {type: "linear", title: {display: true, text: "seconds"}};
const charts = {
  loss: makeChart("loss", "line", {x: seconds}),
  accuracy: makeChart("accuracy", "line", {x: seconds}),
  rate: makeChart("rate", "line", {x: seconds, y: {beginAtZero: true}}),
  logged: makeChart("logged", "line", {x: seconds}),
  staleness: makeChart("staleness", "bar", {
    x: {title: {display: true, text: "versions"}},
    y: {beginAtZero: true},
  }),
};

// `lines`: label, key of a point's number, colour, whether dots are shown.
function drawLines(chart, points, lines) {
  chart.data.datasets = lines.map(([label, read, name, dots], i) => ({
    label,
    data: points.filter((p) => typeof read(p) === "number")
        .map((p) => ({x: p.seconds, y: read(p)})),
    borderColor: colour(name),
    backgroundColor: colour(name),
    pointRadius: dots ? 3 : 0,
  }));
  chart.options.plugins.legend.display = lines.length > 1;
  paint(chart);
}

function paint(chart) {
  for (const scale of Object.values(chart.options.scales)) {
    scale.ticks = {...scale.ticks, color: colour("quiet")};
    scale.grid = {color: colour("line")};
    if (scale.title) scale.title.color = colour("quiet");
  }
  chart.options.plugins.legend.labels = {color: colour("ink")};
  chart.update();
}

function drawCurves(points) {
  drawLines(charts.loss, points, [
    ["training", (p) => p.loss, "applied", false],
    ["test", (p) => p.test_loss, "cancelled", true],
  ]);
  drawLines(charts.accuracy, points,
            [["test accuracy", (p) => p.test_accuracy, "cancelled", true]]);
  drawLines(charts.rate, points,
            [["samples per second", (p) => p.samples_per_second, "applied"]]);
  byId("accuracy-figure").hidden =
      !points.some((p) => typeof p.test_accuracy === "number");
  const names = [...new Set(points.flatMap((p) => Object.keys(p.logged || {})))];
  byId("logged-figure").hidden = names.length === 0;
  drawLines(charts.logged, points, names.slice(0, 5).map((name, i) =>
      [name, (p) => p.logged && p.logged[name], kOutcomes[i], false]));
}

// The last of 33 counts is of all that are staler than that.
const kStalest = 32;

function drawStaleness(counts) {
  let end = counts.length;
  while (end > 1 && counts[end - 1] === 0) --end;
  charts.staleness.data.labels = counts.slice(0, end)
      .map((_, i) => i === kStalest ? `${i}+` : `${i}`);
  charts.staleness.data.datasets =
      [{data: counts.slice(0, end), backgroundColor: colour("applied")}];
  paint(charts.staleness);
}

// Text and tables.

function fill(parent, children) {
  parent.replaceChildren(...children);
}

function showTiles(s) {
  const tiles = [
    ["version", number(s.version, 12)],
    ["epoch", s.epochs_total ? `${number(s.epoch, 4)} of ${s.epochs_total}`
                             : number(s.epoch, 4)],
    ["loss", number(s.loss)],
    ["test accuracy", s.test_accuracy === null ? "–"
                          : `${(100 * s.test_accuracy).toFixed(2)}%`],
    ["samples/s", number(s.samples_per_second, 4)],
    ["updates/s", number(s.updates_per_second, 3)],
    ["mean staleness", number(s.mean_staleness, 3)],
    ["learning rate", number(s.learning_rate, 3)],
    ["gradients cancelled", number(s.gradients.cancelled, 12)],
    ["dropped or rejected",
     number(s.gradients.dropped + s.gradients.rejected, 12)],
  ];
  for (const [name, value] of Object.entries(s.logged)) {
    tiles.push([name, number(value)]);
  }
  fill(byId("tiles"), tiles.map(([label, value]) => {
    const tile = element("div");
    tile.append(element("b", value), element("span", label, "quiet"));
    return tile;
  }));
}

// Bars in a drawing 100 wide: [from, to, class, what a pointer is told].
function bars(parts, label) {
  const kSvg = "http://www.w3.org/2000/svg";
  const svg = document.createElementNS(kSvg, "svg");
  svg.setAttribute("viewBox", "0 0 100 10");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", label);
  for (const [from, to, name, told] of parts) {
    const part = document.createElementNS(kSvg, "rect");
    part.setAttribute("class", name);
    for (const [key, value] of [["x", from], ["y", 0], ["width", to - from],
                                ["height", 10]]) {
      part.setAttribute(key, value);
    }
    const title = document.createElementNS(kSvg, "title");
    title.textContent = told;
    part.append(title);
    svg.append(part);
  }
  return svg;
}

const sum = (counts, names) =>
    names.reduce((so_far, name) => so_far + counts[name], 0);

// What the seconds were spent on, as shares of their sum.
function timeBar(time) {
  const all = sum(time, kCauses);
  const parts = [];
  let from = 0;
  for (const cause of kCauses.filter((cause) => time[cause] > 0)) {
    const to = from + 100 * time[cause] / all;
    parts.push([from, to, cause, `${cause}: ${(to - from).toFixed(1)}%`]);
    from = to;
  }
  return bars(parts, parts.map((part) => part[3]).join(", "));
}

// A worker's last tasks, in the `window` seconds before `now`.
function taskBar(tasks, now, window) {
  const at = (seconds) => Math.min(100, 100 * (1 - (now - seconds) / window));
  const parts = tasks.map(([issued, computed, outcome]) => {
    const until = computed === null ? now : computed;
    return [Math.max(0, at(issued)), at(until), outcome || "unfinished",
            `${outcome || "under way"}: ${number(until - issued, 3)} s`];
  }).filter(([from, to]) => to > Math.max(0, from));
  return bars(parts, `${tasks.length} tasks`);
}

function inOrder(peers) {
  return [...peers].sort((a, b) =>
      kOrder.indexOf(a.state) - kOrder.indexOf(b.state) || a.id - b.id);
}

function states(peers) {
  const counts = new Map();
  for (const peer of peers) {
    counts.set(peer.state, (counts.get(peer.state) || 0) + 1);
  }
  return [...counts].map(([state, count]) => `${count} ${state}`).join(", ");
}

const heard = (peer) =>
    ["missing", "left"].includes(peer.state) ? "–" : `${peer.last_heard_s.toFixed(1)} s`;

function row(cells) {
  const tr = element("tr");
  for (const [content, className] of cells) {
    const td = element("td", undefined, className);
    td.append(content);
    tr.append(td);
  }
  return tr;
}

// The log's clock, which goes on while nothing is written.
let logged = {now: 0, at: 0};
function logNow(time) {
  if (time.now !== logged.now) logged = {now: time.now, at: performance.now()};
  return logged.now + (performance.now() - logged.at) / 1000;
}

function showGoodput(time) {
  byId("goodput").textContent = time.goodput === null ? ""
      : `goodput ${(100 * time.goodput).toFixed(1)}%: the share of the ` +
        "workers' time that is in the weights";
  fill(byId("time"), time.goodput === null ? [] : [timeBar(time.seconds)]);
  byId("behind").textContent =
      time.problem !== null ? `The commit log cannot be read: ${time.problem}`
      : time.behind_bytes > 1 << 20
          ? `The commit log is being read: ${bytes(time.behind_bytes)} left`
          : "";
}

// A cluster of more than `kMostRows` shows those who need a look first. The
// window is the longest for which each worker shown has all its tasks.
function showWorkers(workers, time, over) {
  byId("worker-states").textContent = states(workers);
  const of = new Map(time.worker.map((w) => [w.id, w]));
  const shown = inOrder(workers).slice(0, kMostRows);
  const now = over ? time.now : logNow(time);
  const window = Math.min(...shown.map((w) => of.get(w.id)?.tasks ?? [])
      .filter((tasks) => tasks.length).map((tasks) => now - tasks[0][0]), 3600);
  byId("tasks-heading").textContent =
      of.size ? `last tasks, ${number(window, 2)} s` : "last tasks";
  fill(byId("workers").tBodies[0], shown.map((w) => row([
    [`${w.id}`], [w.state, stateClass(w.state)], [heard(w)],
    [of.has(w.id) ? taskBar(of.get(w.id).tasks, now, window) : "", "wide"],
    [of.has(w.id) ? timeBar(of.get(w.id).seconds) : "", "third"],
    [sum(w.gradients, kOutcomes) ? number(w.gradients.applied, 12) : "–"],
  ])));
  byId("workers-more").textContent = workers.length > shown.length
      ? `and ${workers.length - shown.length} more` : "";
}

function showShards(shards) {
  byId("shards-section").hidden = shards.length === 0;
  const shown = inOrder(shards).slice(0, kMostRows);
  fill(byId("shards").tBodies[0], shown.map((s) => row([
    [`${s.id}`], [s.state, stateClass(s.state)], [heard(s)], [`${s.version}`],
    [bytes(s.counters.pull_bytes_total || 0)],
    [bytes(s.counters.push_bytes_total || 0)], [s.address, "wide"],
  ])));
  byId("shards-more").textContent = shards.length > shown.length
      ? `and ${shards.length - shown.length} more: ${states(shards)}` : "";
}

function showDurable(s) {
  const lines = [];
  const c = s.checkpoints;
  if (c === null) {
    lines.push("The job has no checkpoints: when a shard dies, training " +
               "begins again at version 0.");
  } else {
    lines.push(c.newest_version === null ? "No whole checkpoint yet."
                   : `Version ${c.newest_version} is the newest checkpoint.`);
    if (c.writing_version !== null) {
      lines.push(`Version ${c.writing_version} has been written for ` +
                 `${duration(c.writing_s)}.`);
    }
    if (c.last_error) lines.push(`The last that failed: ${c.last_error}`);
  }
  lines.push(s.recovery === null ? "No recovery."
                 : `Generation ${s.generation} goes on from version ` +
                   `${s.recovery.restored_version}; ` +
                   `${s.recovery.updates_lost} updates lost so far. ` +
                   s.recovery.reason);
  if (s.certificate_expires_s !== null) {
    lines.push(`The first certificate expires in ` +
               `${duration(s.certificate_expires_s)}: ${s.certificate_of}'s.`);
  }
  if (s.insecure) lines.push("Plain text, and not on the loopback alone.");
  fill(byId("durable"), lines.map((line) => element("li", line)));
}

// Events, told from the difference of two answers.

let before = null;

function tell(text) {
  const events = byId("events");
  const at = new Date().toLocaleTimeString("en", {hour12: false});
  events.prepend(element("li", `${at}  ${text}`));
  while (events.children.length > kMostEvents) events.lastChild.remove();
}

function tellChanges(s) {
  const was = before;
  before = s;
  if (was === null) return;
  if (was.phase !== s.phase) {
    tell(`The run is ${s.phase}${s.message ? `: ${s.message}` : ""}`);
  }
  if (was.generation !== s.generation) {
    tell(`Generation ${s.generation} begins: ${s.recovery?.reason || ""}`);
  }
  const newest = s.checkpoints?.newest_version ?? null;
  if (newest !== null && newest !== was.checkpoints?.newest_version) {
    tell(`Version ${newest} is a checkpoint`);
  }
  const told = [["worker", "Worker"], ["shard", "Shard"]];
  const usual = ["computing", "waiting", "serving"];
  for (const [kind, name] of told) {
    const states = new Map(was[kind].map((peer) => [peer.id, peer.state]));
    const changed = s[kind].filter((peer) => {
      const then = states.get(peer.id);
      return then !== peer.state &&
             !(usual.includes(then) && usual.includes(peer.state));
    });
    for (const peer of changed.slice(0, 10)) {
      tell(`${name} ${peer.id} is ${usual.includes(peer.state) ? "there"
                                                               : peer.state}`);
    }
    if (changed.length > 10) {
      tell(`${changed.length - 10} more ${kind}s have changed`);
    }
  }
  if (s.test_version !== was.test_version && s.test_loss !== null) {
    const accuracy = s.test_accuracy === null ? ""
        : `, accuracy ${(100 * s.test_accuracy).toFixed(2)}%`;
    tell(`Version ${s.test_version}: test loss ${number(s.test_loss)}` +
         accuracy);
  }
}

function banner(text, bad) {
  const shown = byId("banner");
  shown.hidden = !text;
  shown.textContent = text;
  shown.classList.toggle("bad", Boolean(bad));
}

function showBanner(s) {
  if (s.phase === "failed") return banner(`Failed: ${s.message}`, true);
  if (s.waiting_for) {
    return banner(`Waiting for ${s.waiting_for} since ${duration(s.waiting_s)}`);
  }
  banner("");
}

function show(s, time) {
  const over = s.phase === "finished" || s.phase === "failed";
  // What a run that failed had done of its way is not in its files.
  const failed = s.phase === "failed";
  const done = (digits) =>
      failed ? "failed" : `${(100 * s.progress).toFixed(digits)}%`;
  document.title = `${done(0)} ${s.name}`;
  byId("name").textContent = s.name;
  byId("policy").textContent = s.policy;
  byId("phase").textContent = s.phase;
  byId("phase").className = `state ${stateClass(s.phase)}`;
  byId("run").textContent =
      `${s.run_id ? `run ${s.run_id}, ` : ""}generation ${s.generation}`;
  byId("bar").style.width = `${100 * s.progress}%`;
  const left = s.progress > 0.001 && s.phase === "running"
      ? `, about ${duration(s.seconds * (1 - s.progress) / s.progress)} left` : "";
  const end = over && s.message ? `: ${s.message}` : "";
  byId("left").textContent =
      `${done(1)} ${failed ? "after" : "in"} ${duration(s.seconds)}${left}${end}`;
  showBanner(s);
  showTiles(s);
  drawStaleness(s.staleness_histogram);
  byId("stop").hidden = over || !kToken;
  byId("checkpoint").hidden =
      s.phase !== "running" || !s.checkpoints || !kToken;
  showGoodput(time);
  showWorkers(s.worker, time, over);
  showShards(s.shard);
  showDurable(s);
  tellChanges(s);
}

// The loop.

let points = [];
let known = 0;  // Number of the newest point.
let run = null;

// A point replaces those at its own time or later: a recovery has gone back.
function addPoints(fresh) {
  for (const point of fresh) {
    while (points.length && points[points.length - 1].seconds > point.seconds) {
      points.pop();
    }
    points.push(point);
    known = point.n;
  }
  if (points.length > kMostPoints) points = points.filter((_, i) => i % 2 === 0);
}

async function call(path, method = "GET") {
  const answer = await fetch(`api/${path}`, {
    method,
    headers: kToken ? {"X-Sluice-Token": kToken} : {},
    signal: AbortSignal.timeout(kPatience),
  });
  if (!answer.ok) throw new Error((await answer.text()) || answer.status);
  return answer;
}

async function ask() {
  const state = await (await call(`state?since=${known}`)).json();
  if (state.status === null) {
    // What a run has left when it died without a word is shown all the same.
    addPoints(state.points);
    if (state.points.length) drawCurves(points);
    showGoodput(state.time);
    return banner(state.error);
  }
  const life = state.status.run_id + state.status.generation;
  if (run !== null && life !== run) {
    // The lead may be a new process, which numbers points from 1.
    [points, known, run] = [[], 0, life];
    return ask();
  }
  run = life;
  addPoints(state.points);
  if (state.points.length) drawCurves(points);
  show(state.status, state.time);
}

async function stop() {
  if (!confirm("End the run? It is evaluated and saved as at its end.")) return;
  try {
    await call("stop", "POST");
    tell("The run was asked to end");
  } catch (error) {
    tell(`The run was not asked to end: ${error.message}`);
  }
}

async function checkpoint() {
  try {
    await call("checkpoint", "POST");
    tell("A checkpoint was asked for");
  } catch (error) {
    tell(`No checkpoint is written: ${error.message}`);
  }
}

async function watch() {
  for (;;) {
    try {
      await ask();
    } catch (error) {
      banner(`No answer from the lead (${error.message}); what is below was ` +
             "true before", true);
    }
    await new Promise((done) => setTimeout(done, kEvery));
  }
}

fill(byId("legend"), kCauses.map((cause) => {
  const entry = element("span");
  entry.append(element("i", "", cause), cause);
  return entry;
}));
byId("stop").addEventListener("click", stop);
byId("checkpoint").addEventListener("click", checkpoint);
isDark.addEventListener("change", () => Object.values(charts).forEach(paint));
watch();
