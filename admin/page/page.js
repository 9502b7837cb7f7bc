// The live page: it asks the proxy every second what it does, and shows that.
//
// What comes from there may have been written by others (a model's name is a
// client's, a label the upstream's), so it goes into the page as text, never as
// markup.

const PERIOD = 1000; // between two looks, in ms
const LONGEST_WAIT = 15_000; // between two tries to reach a proxy that is away
const TIMEOUT = 5000; // of one request
const WINDOW = 300_000; // what a chart shows
const MINUTE = 60_000;
const COLUMN = 5000; // of the chart of what runs
const GAP = 5000; // from here on nothing is known of the time between two looks
const MOST_ROWS = 200; // of running requests

const PHASES = {
  waiting: "no answer yet",
  thinking: "the model thinks, nothing is visible yet",
  held: "what the model thinks is held back",
  backoff: "between two attempts",
  visible: "the client sees the answer",
};

// What the modes of each guard mean.
const MODES = {
  recovery: {
    enforce: "Loops are cut, and the request is asked again.",
    observe: "Loops are counted but not cut: agents get them whole.",
    off: "No request is protected: nothing is looked into.",
  },
  detector: {
    enforce: "Loops that the upstream does not report are found here, and cut.",
    observe: "Loops that the upstream does not report are found here, and only counted.",
    off: "Only loops that the upstream reports are cut.",
  },
  stationarity: {
    enforce: "An agent that makes the same tool call again and again is told so.",
    observe: "An agent that makes the same tool call again and again is only counted.",
    off: "Tool calls that repeat are not looked for.",
  },
};

// What a guard is called where its mode is spoken of.
const GUARDS = { recovery: "the mode", detector: "the detector", stationarity: "the look at tool calls" };

const ACTIONS = { nudge: "told", stop: "stopped" };

// Who had an attempt cut, if not the upstream.
const SOURCES = { local: "found here", drill: "drills" };

const OUTCOMES = { recovered: "good", late: "warn", accepted_after_budget: "warn", gave_up: "bad" };

// ---------------------------------------------------------------- the metrics

const LINE = /^([A-Za-z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)(?:\s+-?\d+)?$/;
const LABEL = /([A-Za-z_]\w*)="((?:[^"\\]|\\.)*)"/g;

// parseMetrics reads Prometheus' text format.
export function parseMetrics(text) {
  const series = [];
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : LINE.exec(line.trim());
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(LABEL)) {
      labels[name] = value.replace(/\\(.)/g, (_, c) => (c === "n" ? "\n" : c));
    }
    series.push({ name: match[1], labels, value: Number(match[3].replace("Inf", "Infinity")) });
  }
  return new Metrics(series);
}

class Metrics {
  constructor(series) {
    this.series = series;
  }

  // of returns the series of a name that have the labels.
  of(name, labels = {}) {
    return this.series.filter((s) => s.name === name && Object.entries(labels).every(([k, v]) => s.labels[k] === v));
  }

  // sum adds up the series of a name that have the labels.
  sum(name, labels) {
    return this.of(name, labels).reduce((sum, s) => sum + s.value, 0);
  }

  // by adds up the series of a name for each value of a label. The result holds
  // no zeros, and begins with the largest.
  by(name, label, labels) {
    const sums = new Map();
    for (const s of this.of(name, labels)) {
      sums.set(s.labels[label], (sums.get(s.labels[label]) ?? 0) + s.value);
    }
    return [...sums].filter(([, n]) => n > 0).sort((a, b) => b[1] - a[1]);
  }
}

// ------------------------------------------------------------ numbers as text

const whole = new Intl.NumberFormat("en");
const short = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });

const count = (n) => whole.format(n);
const words = (label) => label.replaceAll("_", " ");
const plural = (n, one, many = `${one}s`) => `${count(n)} ${n === 1 ? one : many}`;

// scaled writes a number with three digits and a unit.
function scaled(n, units) {
  let i = 0;
  for (; Math.round(n) >= 1000 && i < units.length - 1; i++) n /= 1000;
  return (i === 0 ? whole.format(Math.round(n)) : short.format(n)) + units[i];
}

export const bytes = (n) => scaled(n, [" B", " kB", " MB", " GB", " TB"]);
const tokens = (n) => scaled(n, ["", "k", "M", "G"]);

export function duration(seconds) {
  const two = (n) => String(Math.floor(n)).padStart(2, "0");
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 59.5) return `${Math.round(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} m ${two(seconds % 60)} s`;
  if (seconds < 86_400) return `${Math.floor(seconds / 3600)} h ${two((seconds % 3600) / 60)} m`;
  return `${Math.floor(seconds / 86_400)} d ${two((seconds % 86_400) / 3600)} h`;
}

// ago writes how long it has been since a time in seconds.
function ago(time) {
  const seconds = Math.round(Date.now() / 1000 - time);
  return seconds < 10 ? "a moment ago" : `${duration(seconds)} ago`;
}

// moment writes a time of day, with the date unless it is today's.
function moment(date) {
  const day = date.toDateString() === new Date().toDateString() ? {} : { month: "short", day: "numeric" };
  return date.toLocaleString("en", { ...day, hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" });
}

// ------------------------------------------------------------------- elements

const $ = (id) => document.getElementById(id);

// element makes one; children are elements and texts.
function element(tag, attributes = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  e.append(...children);
  return e;
}

function drawing(tag, attributes) {
  const e = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) e.setAttribute(name, value);
  return e;
}

// write changes a text, but only if it differs: what is selected stays so.
function write(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// number makes an element with a number for people, and for programs.
function number(n, text = count(n)) {
  return element("data", { value: String(n) }, text);
}

// ------------------------------------------------------------------- counters

// A tile is a heading, one number that matters most, and what it consists of.
class Tile {
  constructor(id, title) {
    this.big = element("p", { class: "big" });
    this.parts = element("dl", { class: "parts" });
    $("tiles").append(element("div", { class: "tile", id }, element("h3", {}, title), this.big, this.parts));
  }

  show(n, text, beside, parts) {
    this.big.replaceChildren(number(n, text), ...(beside ? [" ", element("small", {}, beside)] : []));
    this.parts.replaceChildren(...parts.flatMap(([name, value]) => [element("dt", {}, name), element("dd", {}, value)]));
  }
}

const tiles = {
  requests: new Tile("requests", "Requests"),
  recovered: new Tile("recovered", "Recovered"),
  cuts: new Tile("cuts", "Attempts cut"),
  discarded: new Tile("discarded", "Discarded with them"),
  retries: new Tile("retries", "Retries after failures"),
  unprotected: new Tile("unprotected", "Unprotected requests"),
  repeated: new Tile("repeated", "Repeated tool calls"),
};

const parts = (list) => list.map(([label, n]) => [words(label), number(n)]);

function showCounters(m) {
  const requests = m.sum("doomproxy_requests_total");
  tiles.requests.show(requests, count(requests), "", parts(m.by("doomproxy_requests_total", "outcome")));

  const looped = m.sum("doomproxy_recoveries_total");
  const recovered = m.sum("doomproxy_recoveries_total", { outcome: "recovered" });
  const others = m.by("doomproxy_recoveries_total", "outcome").filter(([outcome]) => outcome !== "recovered");
  tiles.recovered.show(recovered, count(recovered), `of ${count(looped)} that looped`, parts(others));

  const cuts = m.sum("doomproxy_doom_aborts_total", { mode: "enforce" });
  const observed = m.sum("doomproxy_doom_aborts_total", { mode: "observe" });
  const kinds = parts(m.by("doomproxy_doom_aborts_total", "kind", { mode: "enforce" }));
  kinds.push(...parts(m.by("doomproxy_doom_aborts_total", "source", { mode: "enforce" }).filter(([source]) => source !== "upstream")).map(([source, n]) => [SOURCES[source] ?? source, n]));
  if (observed > 0) kinds.push(["would have been cut", number(observed)]);
  tiles.cuts.show(cuts, count(cuts), "", kinds);

  const discarded = m.sum("doomproxy_discarded_bytes_total");
  const lost = m.sum("doomproxy_discarded_tokens_estimated_total");
  const used = m.sum("doomproxy_tokens_total", { type: "output" });
  tiles.discarded.show(discarded, bytes(discarded), "", [
    ["tokens, est.", number(lost, tokens(lost))],
    ["in answers", number(used, tokens(used))],
  ]);

  const attempts = "doomproxy_attempts_total";
  const retries = m.sum(attempts, { kind: "retry" });
  const kept = ["resample", "ladder"].map((kind) => [kind, m.sum(attempts, { kind })]).filter(([, n]) => n > 0);
  tiles.retries.show(retries, count(retries), "", [["attempts in all", number(m.sum(attempts))], ...parts(kept)]);

  const unprotected = m.sum("doomproxy_unprotected_total");
  tiles.unprotected.show(unprotected, count(unprotected), "", parts(m.by("doomproxy_unprotected_total", "reason")));

  const repeated = m.sum("doomproxy_stationarity_total");
  tiles.repeated.show(repeated, count(repeated), "", m.by("doomproxy_stationarity_total", "action").map(([action, n]) => [ACTIONS[action] ?? action, number(n)]));

  const started = m.sum("process_start_time_seconds");
  write($("uptime"), started > 0 ? ago(started) : "");
  const build = m.of("doomproxy_build_info")[0]?.labels;
  write($("build"), build ? build.version : "");
}

// --------------------------------------------------------------------- charts

const WIDTH = 300;
const HEIGHT = 72;

class Chart {
  constructor(title, shapes) {
    this.big = element("p", { class: "big" });
    this.top = element("p", { class: "top" });
    this.svg = drawing("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" });
    this.svg.append(
      drawing("path", { class: "rule", d: `M0 0H${WIDTH}` }),
      drawing("path", { class: "rule", d: `M0 ${HEIGHT}H${WIDTH}` }),
    );
    this.paths = shapes.map((shape) => this.svg.appendChild(drawing("path", { class: shape })));
    const axis = element("p", { class: "axis" }, element("span", {}, "5 min ago"), element("span", {}, "now"));
    const head = element("div", { class: "head" }, element("h3", {}, title), this.top);
    this.tile = element("div", { class: "tile chart" }, head, this.big, this.svg, axis);
    $("chart-tiles").append(this.tile);
  }

  // show draws runs of points {t, y: [lower, upper] of each shape}.
  show(now, runs, value, most, format, says) {
    const scale = Math.max(most, 1);
    const x = (t) => (WIDTH * (1 - (now - t) / WINDOW)).toFixed(1);
    const y = (v) => (HEIGHT * (1 - v / scale)).toFixed(1);
    this.paths.forEach((path, i) => {
      const d = runs.map((run) => {
        const upper = run.map((p) => `${x(p.t)} ${y(p.y[i][1])}`);
        const lower = run.map((p) => `${x(p.t)} ${y(p.y[i][0])}`).reverse();
        return run.some((p) => p.y[i][1] > p.y[i][0]) ? `M${[...upper, ...lower].join("L")}Z` : "";
      });
      path.setAttribute("d", d.join(""));
    });
    this.big.replaceChildren(number(value, format(value)));
    write(this.top, `at most ${format(most)}`);
    this.svg.setAttribute("aria-label", `${says}: now ${format(value)}, at most ${format(most)}`);
  }
}

const charts = {
  running: new Chart("Running, by phase", Object.keys(PHASES).map((phase) => `phase ${phase}`)),
  cuts: new Chart("Cuts per minute", ["cuts"]),
  bytes: new Chart("Discarded per minute", ["bytes"]),
};
charts.running.tile.append(element("ul", { class: "legend" },
  ...Object.keys(PHASES).map((phase) => element("li", { class: `mark ${phase}` }, phase))));

let looks = []; // {t, phases, cuts, bytes}: the last ones, the latter two ever growing

// remember takes in what was seen. A counter that fell began again at 0.
function remember(m, now) {
  const last = looks.at(-1);
  const look = {
    t: now,
    phases: Object.keys(PHASES).map((phase) => m.sum("doomproxy_requests_in_flight", { phase })),
    raw: { cuts: m.sum("doomproxy_doom_aborts_total", { mode: "enforce" }), bytes: m.sum("doomproxy_discarded_bytes_total") },
  };
  for (const key of ["cuts", "bytes"]) {
    const more = last ? look.raw[key] - last.raw[key] : 0;
    look[key] = (last?.[key] ?? 0) + (more < 0 ? look.raw[key] : more);
  }
  looks = looks.filter((l) => now - l.t < WINDOW + MINUTE);
  looks.push(look);
}

// lastMinute returns how much a counter grew in the minute before a look.
function lastMinute(i, key) {
  const from = looks[i].t - MINUTE;
  let j = i;
  while (j > 0 && looks[j].t > from) j--;
  if (looks[j].t >= from || j === i) return looks[i][key] - looks[j][key];
  const share = (from - looks[j].t) / (looks[j + 1].t - looks[j].t); // as if it had grown evenly
  return looks[i][key] - looks[j][key] - share * (looks[j + 1][key] - looks[j][key]);
}

// runs makes a point of each look in the window, and splits them where nothing is
// known in between.
function runs(now, point) {
  const list = [];
  let last = -Infinity;
  looks.forEach((look, i) => {
    if (now - look.t > WINDOW) return;
    if (look.t - last > GAP) list.push([]);
    list.at(-1).push(point(look, i));
    last = look.t;
  });
  return list;
}

// columns makes of runs of looks one column for each COLUMN ms, as high as the
// mean of what was running: single looks would be all spikes.
function columns(list) {
  return list.map((run) => {
    const bins = Map.groupBy(run, (look) => Math.floor(look.t / COLUMN));
    return [...bins.values()].flatMap((bin, i, all) => {
      let sum = 0;
      const y = bin[0].phases.map((_, phase) => {
        const mean = bin.reduce((n, look) => n + look.phases[phase], 0) / bin.length;
        return [sum, (sum += mean)];
      });
      return [{ t: bin[0].t, y }, { t: (all[i + 1] ?? bin).at(all[i + 1] ? 0 : -1).t, y }];
    });
  });
}

const total = (look) => look.phases.reduce((a, b) => a + b, 0);

function showCharts(now) {
  let points = runs(now, (look) => look);
  charts.running.show(now, columns(points), total(looks.at(-1)), Math.max(...points.flat().map(total)), count, "Running requests");
  const perMinute = (chart, key, format, says) => {
    points = runs(now, (look, i) => ({ t: look.t, y: [[0, lastMinute(i, key)]] }));
    const values = points.flat().map((p) => p.y[0][1]);
    chart.show(now, points, values.at(-1), Math.max(...values), format, says);
  };
  perMinute(charts.cuts, "cuts", (n) => count(Math.round(n)), "Cuts per minute");
  perMinute(charts.bytes, "bytes", bytes, "Bytes discarded per minute");
}

// ----------------------------------------------------------- running requests

const groups = new Map(); // by phase: {body, head}
const rows = new Map(); // by id: {row, cells…}
const cancelling = new Set(); // ids

for (const phase of Object.keys(PHASES)) group(phase);

// group returns the part of the table for a phase.
function group(phase) {
  if (!groups.has(phase)) {
    const number = element("span");
    const name = element("th", { role: "rowheader", scope: "rowgroup", colspan: "7" },
      element("b", { class: `mark ${phase in PHASES ? phase : ""}` }, phase), " ", number);
    const body = element("tbody", { role: "rowgroup" }, element("tr", { role: "row", class: "group" }, name));
    body.hidden = true;
    $("running").append(body);
    groups.set(phase, { body, number });
  }
  return groups.get(phase);
}

const cell = (label = "", kind = "") => element("td", { role: "cell", class: kind, ...(label && { "data-label": label }) });

const shortID = (id) => id.slice(0, 8);

function makeRow(id) {
  const r = {
    name: element("th", { role: "rowheader", scope: "row", title: id }, element("code", {}, shortID(id))),
    model: cell("", "name"),
    attempt: cell("attempt", "number"),
    age: cell("age", "number"),
    frames: cell("frames", "number"),
    signals: cell("", "wide"),
    button: element("button", { type: "button" }, "Cancel"),
    aside: element("span", { class: "aside" }),
  };
  r.name.append(r.aside);
  r.button.addEventListener("click", () => cancel(id));
  const action = cell("", "action");
  action.append(r.button);
  r.row = element("tr", { role: "row", "data-id": id }, r.name, r.model, r.attempt, r.age, r.frames, r.signals, action);
  return r;
}

// labels shows the reports of a request, those that differ only in their number
// as one: tail_repetition:64@thinking and tail_repetition:32@thinking as
// tail_repetition@thinking 64 32.
function labels(td, signals) {
  const text = signals.join(" ");
  if (td.title === text) return;
  td.title = text;
  td.classList.toggle("blank", signals.length === 0);
  const numbers = new Map();
  for (const label of signals) {
    const [, kind, number, channel] = /^(\w+):([\w.]+)(@\w+)$/.exec(label) ?? [null, label, "", ""];
    numbers.set(kind + channel, `${numbers.get(kind + channel) ?? ""} ${number}`.trimEnd());
  }
  td.replaceChildren(element("span", { class: "labels" }, ...[...numbers].map(([kind, list]) => element("code", {}, kind + list))));
}

// from names the upstream where that is of interest.
const from = (model, upstream) => (upstream === "default" ? model : `${model} · ${upstream}`);

function showRunning(running, live) {
  const focused = document.activeElement;
  const seen = new Map([...groups.keys()].map((phase) => [phase, []]));
  for (const request of running.slice(0, MOST_ROWS)) {
    group(request.phase);
    if (!rows.has(request.id)) rows.set(request.id, makeRow(request.id));
    const r = rows.get(request.id);
    r.request = request;
    write(r.model, from(request.model, request.upstream));
    write(r.aside, request.protection === "protected" ? "" : request.protection);
    write(r.attempt, count(request.attempt));
    write(r.age, duration(request.age));
    write(r.frames, count(request.frames));
    labels(r.signals, request.repeated ? [...request.signals, `calls: ${request.repeated}`] : request.signals);
    const pending = cancelling.has(request.id);
    write(r.button, pending ? "Cancelling…" : "Cancel");
    r.button.setAttribute("aria-label", `${pending ? "Cancelling" : "Cancel"} request ${shortID(request.id)}`);
    r.button.disabled = pending || !live;
    if (!seen.has(request.phase)) seen.set(request.phase, []);
    seen.get(request.phase).push(r.row);
  }
  const ids = new Set(running.map((request) => request.id));
  for (const [id, r] of rows) {
    if (ids.has(id)) continue;
    r.row.remove();
    rows.delete(id);
    cancelling.delete(id);
  }
  for (const [phase, list] of seen) {
    const { body, number } = group(phase);
    body.hidden = list.length === 0;
    write(number, `${count(list.length)} — ${PHASES[phase] ?? "unknown to this page"}`);
    list.forEach((row, i) => {
      if (body.children[i + 1] !== row) body.insertBefore(row, body.children[i + 1] ?? null);
    });
  }
  if (focused !== document.activeElement && focused.isConnected) focused.focus({ preventScroll: true });
  write($("running-count"), running.length > 0 ? count(running.length) : "");
  $("running").hidden = running.length === 0;
  $("running-empty").hidden = running.length > 0;
  $("running-more").hidden = running.length <= MOST_ROWS;
  write($("running-more"), `Here are the ${MOST_ROWS} oldest of ${count(running.length)}.`);
  write($("running-empty"), "None at the moment. A request is here from when an agent sends it to the proxy until its answer ends.");
}

async function cancel(id) {
  const r = rows.get(id);
  if (!r) return;
  const { model, age, phase } = r.request;
  const yes = await ask({
    title: `Cancel request ${shortID(id)}?`,
    text: `${model}, ${phase}, runs for ${duration(age)}. Its agent's connection is dropped and the upstream's is closed. ` +
      "Agents often try again: the same request is refused for one minute.",
    no: "Let it run",
    yes: "Cancel the request",
  });
  if (!yes) return;
  cancelling.add(id);
  r.button.disabled = true;
  write(r.button, "Cancelling…");
  try {
    await post(`debug/requests/${encodeURIComponent(id)}/cancel`);
    say(`Request ${shortID(id)} was cancelled.`);
  } catch (err) {
    cancelling.delete(id);
    say(err.status === 404 ? `Request ${shortID(id)} had ended by itself.` : `Request ${shortID(id)} was not cancelled: ${err.message}`, err.status !== 404);
  }
  look();
}

// ----------------------------------------------------------- ended requests

function showRecoveries(recoveries, started) {
  write($("recoveries-count"), recoveries.length >= 100 ? "the last 100" : recoveries.length > 0 ? count(recoveries.length) : "");
  $("recoveries-scroll").hidden = recoveries.length === 0;
  $("recoveries-empty").hidden = recoveries.length > 0;
  write($("recoveries-empty"), started > 0
    ? `None since the start ${ago(started)}. A request is here once it has ended, if the upstream reported a loop in it with enough confidence to act.`
    : "None since the start.");
  const body = $("recoveries").tBodies[0];
  const known = new Map([...body.rows].map((row) => [row.dataset.id, row]));
  recoveries.forEach((request, i) => {
    const row = known.get(request.id) ?? makeRecovery(request);
    known.delete(request.id);
    if (body.rows[i] !== row) body.insertBefore(row, body.rows[i] ?? null);
  });
  for (const row of known.values()) row.remove();
}

function makeRecovery(request) {
  const ended = new Date(request.time);
  const texts = [
    [cell(), element("time", { datetime: request.time, title: request.time }, moment(ended))],
    [cell(), element("span", { class: OUTCOMES[request.outcome] ?? "" }, words(request.outcome))],
    [cell("", "name"), from(request.model, request.upstream)],
    [cell("attempts", "number"), count(request.attempts)],
    [cell("cuts", "number"), count(request.cuts)],
    [cell("discarded", "number"), bytes(request.discarded)],
    [cell("took", "number"), duration(request.seconds)],
  ].map(([td, content]) => (td.append(content), td));
  const signals = cell("", "wide");
  labels(signals, request.signals);
  const id = element("td", { role: "cell", title: request.id }, element("code", {}, shortID(request.id)));
  return element("tr", { role: "row", "data-id": request.id }, ...texts, signals, id);
}

// ----------------------------------------------------------------------- mode

let snapshot = null; // the last answer of /debug/requests

const guards = new Map([...document.querySelectorAll("#mode .guard")].map((e) => [e.dataset.guard, e]));

for (const [guard, e] of guards) {
  for (const mode of Object.keys(MODES[guard])) {
    const button = element("button", { type: "button", "data-mode": mode, "aria-pressed": "false", disabled: "" }, mode);
    button.addEventListener("click", () => switchMode(guard, mode));
    e.querySelector(".choice").append(button);
  }
}

function showModes({ modes }, live) {
  for (const { guard, mode, configured, switched } of modes) {
    const e = guards.get(guard);
    if (!e) continue;
    e.classList.toggle("unprotected", mode !== "enforce");
    let text = MODES[guard][mode] ?? "";
    if (switched) text += ` Switched here, until it is switched back or the proxy restarts; configured is ${configured}.`;
    write(e.querySelector("p"), text);
    for (const button of e.querySelectorAll("button")) {
      button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
      button.disabled = !live;
    }
  }
  $("mode").classList.toggle("unprotected", modes[0].mode !== "enforce");
}

async function switchMode(guard, mode) {
  const now = snapshot?.modes.find((m) => m.guard === guard);
  if (!now || mode === now.mode) return;
  const back = mode === now.configured;
  const yes = await ask({
    title: guard === "recovery" ? `Switch to ${mode}?` : `Switch ${GUARDS[guard]} to ${mode}?`,
    text: `${MODES[guard][mode]} This holds for requests that come from now on, ${back ? "as configured" : "until it is switched back or the proxy restarts"}. ` +
      "Those that run keep the mode they began with.",
    no: `Stay with ${now.mode}`,
    yes: `Switch to ${mode}`,
    calm: mode === "enforce",
  });
  if (!yes) return;
  try {
    await post("debug/mode", { [guard]: back ? "" : mode });
    say(guard === "recovery" ? `The mode is ${mode} now.` : `The mode of ${GUARDS[guard]} is ${mode} now.`);
  } catch (err) {
    say(`The mode was not switched: ${err.message}`, true);
  }
  look();
}

// --------------------------------------------------------- asking and telling

// ask opens the dialog and returns whether the answer is yes.
function ask({ title, text, no, yes, calm = false }) {
  write($("ask-title"), title);
  write($("ask-text"), text);
  write($("ask-no"), no);
  write($("ask-yes"), yes);
  $("ask-yes").classList.toggle("calm", calm);
  const dialog = $("ask");
  dialog.returnValue = ""; // what Escape leaves
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

$("ask-no").addEventListener("click", () => $("ask").close());
$("ask-yes").addEventListener("click", () => $("ask").close("yes"));

let silence = 0; // a timer

// say tells what became of something that was asked for.
function say(text, failed = false) {
  $("said").classList.toggle("failed", failed);
  write($("said"), `${moment(new Date())}  ${text}`);
  clearTimeout(silence);
  silence = setTimeout(() => write($("said"), ""), failed ? 60_000 : 20_000);
}

// ------------------------------------------------------------------- requests

// Refused is an answer with another status than expected.
class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

// here is where the page is, without the token that may stand in its address.
const here = location.origin + location.pathname;

async function request(path, options) {
  const response = await fetch(new URL(path, here), { cache: "no-store", signal: AbortSignal.timeout(TIMEOUT), ...options });
  const text = await response.text();
  if (response.ok) return text;
  let message = text.trim();
  try {
    message = JSON.parse(text).error.message;
  } catch {
    // It is no JSON, then it is a text.
  }
  throw new Refused(response.status, message || `status ${response.status}`);
}

const post = (path, body = {}) => request(path, {
  method: "POST",
  headers: { "Content-Type": "application/json", "X-Doomproxy-Action": "page" },
  body: JSON.stringify(body),
});

let timer = 0;
let looking = false;
let failures = 0; // in a row
let reached = 0; // when the proxy was, in ms

// look asks the proxy, shows what it said, and comes back.
async function look() {
  clearTimeout(timer);
  if (looking) return;
  if (document.hidden) {
    link("paused", "paused");
    return;
  }
  looking = true;
  let answers = null;
  try {
    answers = await Promise.all([request("debug/requests").then(JSON.parse), request("metrics", { headers: { Accept: "text/plain" } }).then(parseMetrics)]);
    failures = 0;
    reached = Date.now();
  } catch (err) {
    failures++;
    lost(err);
  }
  looking = false;
  timer = setTimeout(look, failures > 0 ? Math.min(PERIOD * 2 ** failures, LONGEST_WAIT) : PERIOD);
  if (answers) show(...answers);
}

function show(state, metrics) {
  const now = Date.now();
  snapshot = state;
  link("live", "live");
  showModes(state, true);
  showCounters(metrics);
  remember(metrics, now);
  showCharts(now);
  showRunning(state.running, true);
  showRecoveries(state.recoveries, metrics.sum("process_start_time_seconds"));
  document.title = state.running.length > 0 ? `${plural(state.running.length, "request")} · doomproxy` : "doomproxy";
}

// lost shows that the proxy did not answer, or not as it should.
function lost(err) {
  if (err instanceof Refused) {
    link("refused", `refused: ${err.message}`);
  } else {
    const since = reached > 0 ? `, last seen ${moment(new Date(reached))}` : "";
    link("away", `not reachable${since}, trying again`);
  }
  document.title = "not reachable · doomproxy";
  if (snapshot) {
    showModes(snapshot, false);
    showRunning(snapshot.running, false);
  }
}

function link(state, text) {
  document.body.dataset.link = state;
  write($("link-text"), text);
}

document.addEventListener("visibilitychange", look);
look();
