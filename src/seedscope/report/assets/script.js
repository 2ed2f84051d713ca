// Everything that moves on the page. One state; every change of it goes through `update`, which redraws what depends on it.
// Texts of the report reach the page only by textContent and as data of charts.
"use strict";
(async () => {
  const { report, specifications, quantities, kinds } = JSON.parse(document.getElementById("payload").textContent);
  const { people, groups, levels } = report;
  const classes = report.audited.classes;
  const PAGE = 25, MOST_LINES = 150, SMALL = 1500;  // rows, thin lines, points that SVG draws fast
  const PRINT_WIDTH = 310, PRINT_HEIGHT = 215;  // half the width of a sheet of A4 or Letter, in CSS pixels
  const BRUSHED = ["people", "distribution"], MANY_MARKS = ["people", "exposure", "privacy"];
  const MODELS = ["models without them", "models that have them"];
  const COLOURS = ["ink", "muted", "line", "paper", "neutral", "accent", "second", "third"];
  const state = {
    level: report.verdict.level ?? 0, filters: groups.map(() => null), chosen: new Set(), focus: null,
    search: "", onlyChosen: false, sort: { key: "disagreement", descending: true }, page: 0,
  };
  const views = {};
  const byId = (id) => document.getElementById(id);

  // ---- Words ----
  const shown = (value, show = "plain") => {  // the twin of words.shown
    if (value === null || value === undefined) return "–";
    if (show === "percent") return `${(100 * value).toFixed(1)} %`;
    const size = Math.abs(value);
    if (value === 0 || size >= 100) return Math.round(value).toLocaleString("en-US");
    if (size >= 1e-3) return String(Number(value.toPrecision(3)));
    return size >= 1e-4 ? String(Number(value.toPrecision(2))) : value.toExponential(1).replace(".0e", "e");
  };
  const nameOf = (names, index) => (index === null ? null : names[index]);
  const plural = (count, one, many) => `${count.toLocaleString("en-US")} ${count === 1 ? one : many}`;
  const element = (tag, properties = {}, ...children) => {
    const made = Object.assign(document.createElement(tag), properties);
    made.append(...children);
    return made;
  };

  // ---- Rows: people at the level, who pass the filters ----
  const columns = () => people.levels[state.level];
  const passes = (person) => state.filters.every((wanted, group) => wanted === null || people.groups[group][person] === wanted);
  const exposure = (person) => (people.part[person] === "test" ? 0 : columns().advantage?.[person] ?? columns().membership_advantage[person]);
  const peopleRow = (person) => ({  // the twin of rows.people_rows
    person, id: people.id[person], label: nameOf(classes, people.label[person]),
    predicted: nameOf(classes, columns().predicted[person]), disagreement: columns().disagreement[person],
    part: people.part[person], exposure: exposure(person), advantage_lower: columns().advantage_lower?.[person] ?? null,
    advantage_upper: columns().advantage_upper?.[person] ?? null, models: MODELS[columns().in_models?.[person]] ?? null,
    membership: columns().membership_advantage[person], epsilon_lower: columns().epsilon_lower[person],
    epsilon_upper: columns().epsilon_upper[person], epsilon_statistical: columns().epsilon_statistical?.[person] ?? null,
    epsilon_estimate: columns().epsilon_estimate?.[person] ?? null,
  });
  const everyone = [...people.id.keys()];
  let present = everyone, presentRows = [], bounded = [], sided = [];
  const sidedRows = () => {  // the twin of rows.sided_rows
    const listed = presentRows.filter((row) => row.advantage_lower !== null && row.advantage_upper !== null);
    listed.sort((a, b) => b.exposure - a.exposure || a.person - b.person);
    return listed.map((row, place) => ({ ...row, place: place + 1 }));
  };
  const boundedRows = () => {  // the twin of rows.privacy_rows
    const attacked = presentRows.filter((row) => row.epsilon_lower !== null);
    const listed = attacked.length ? attacked : presentRows.filter((row) => row.epsilon_upper !== null);
    const less = (side) => (a, b) => (b[side] ?? 0) - (a[side] ?? 0);
    const sides = ["epsilon_lower", "epsilon_estimate", "epsilon_upper"].map(less);
    listed.sort((a, b) => sides.reduce((order, side) => order || side(a, b), 0) || a.person - b.person);
    return listed.map((row, place) => ({ ...row, place: place + 1 }));
  };
  const lineRows = (persons) => persons.flatMap((person) => levels
    .map((_, level) => ({ person, level, value: people.levels[level].disagreement[person] })).filter((row) => row.value !== null));
  const groupStart = groups.map((_, index) => groups.slice(0, index).reduce((sum, group) => sum + group.levels.length, 0));
  const groupTicks = (persons) => persons.flatMap((person) => groups
    .map((_, group) => ({ person, place: people.groups[group][person], row: groupStart[group] + people.groups[group][person], disagreement: columns().disagreement[person] }))
    .filter((tick) => tick.place !== null && tick.disagreement !== null));
  const groupNames = groups.flatMap((group) => group.levels.map((level) => (groups.length > 1 ? `${group.name}: ${level}` : level)));

  const fixedRows = {  // what no choice of the reader changes
    trade_off: { levels: levelRows() }, attack: { roc: rocRows() }, groups: { groups: groupRows() }, exposure: { allowed: allowedRows() },
    privacy: { limits: limitRows() },
  };
  function allowedRows() {  // the twin of rows.allowed_rows
    return levels.flatMap((level, index) => (level.trade_off ? [{ level: index, limit: "allowed by the guarantee", advantage: level.trade_off.advantage.value }] : []));
  }
  function levelRows() {
    const titles = { accuracy: "Accuracy", mean_disagreement: "Disagreement", attack_advantage: "Attack" };
    return levels.flatMap((level, index) => Object.entries(titles)
      .filter(([name]) => level[name] !== null && level[name].value !== null)
      .map(([name, quantity]) => ({ level: index, label: level.label, quantity, ...ends(level[name]) })));
  }
  function rocRows() {
    return levels.flatMap((level, index) => (level.roc?.false_positive_rate ?? []).map((rate, point) => ({
      level: index, label: level.label, false_positive: rate, true_positive: level.roc.true_positive_rate[point],
      limit: level.roc.true_positive_limit?.[point] ?? null,
    })).filter((row) => row.false_positive > 0));
  }
  function groupRows() {
    return levels.flatMap((_, level) => groups.flatMap((group, index) => group.levels.map((name, place) => ({
      group, name, place, level, index, number: group.by_level[level].mean_disagreement[place],
    })).filter((one) => one.number !== null).map((one) => ({
      row: groupStart[index] + one.place, level, group: group.name, name: one.name, people: group.people[one.place], ...ends(one.number),
    }))));
  }
  function limitRows() {
    return levels.flatMap((level, index) => [
      { level: index, limit: "proved for everyone", epsilon: level.guarantee.epsilon?.value ?? null },
      { level: index, limit: "most that this many seeds can show", epsilon: level.epsilon_lower_ceiling },
    ].filter((row) => row.epsilon !== null));
  }
  function ends(number) {
    return { value: number.value, lower: number.lower ?? number.value, upper: number.upper ?? number.value, kind: number.kind };
  }

  // ---- Charts ----
  const put = (name, data) => {
    if (!views[name]) return;
    for (const [source, rows] of Object.entries(data)) views[name].data(source, rows.map((row) => ({ ...row })));
  };
  const signal = (name, value) => Object.values(views).forEach((view) => view.signal(name, value));
  const run = () => Object.values(views).forEach((view) => view.run());

  function colours() {
    const probe = document.body.appendChild(element("span", { hidden: true }));
    const found = COLOURS.map((name) => { probe.style.color = `var(--${name})`; return [name, getComputedStyle(probe).color]; });
    probe.remove();
    return found;
  }
  function recolour() { colours().forEach(([name, value]) => signal(name, value)); run(); }

  function tooltip(_, event, __, value) {
    const box = byId("tooltip");
    box.hidden = value === null || value === undefined || value === "";
    if (box.hidden) return;
    const lines = Object.entries(value).filter(([, text]) => text !== null && text !== "null" && text !== "NaN" && text !== "");
    box.replaceChildren(...lines.map(([name, text]) => element("div", {}, element("span", { textContent: name }), element("span", { textContent: text }))));
    box.style.left = `${Math.max(8, Math.min(event.clientX + 14, innerWidth - box.offsetWidth - 12))}px`;
    box.style.top = `${Math.max(8, event.clientY + box.offsetHeight + 30 > innerHeight ? event.clientY - box.offsetHeight - 12 : event.clientY + 16)}px`;
  }

  async function embed(figure) {
    const name = figure.dataset.chart;
    if (!specifications[name]) return;
    figure.hidden = false;
    const renderer = MANY_MARKS.includes(name) && people.shown > SMALL ? "canvas" : "svg";
    const options = { ast: true, actions: false, renderer, tooltip, defaultStyle: false, logLevel: 1 };
    const holder = figure.querySelector(".chart");
    const { view } = await vegaEmbed(holder, specifications[name], options);
    holder.setAttribute("role", "img");  // one picture to a screen reader; what it shows is in the tables
    holder.setAttribute("aria-label", specifications[name].description ?? figure.querySelector("h3").textContent);
    [...holder.children].forEach((child) => child.setAttribute("aria-hidden", "true"));
    views[name] = view;
    let pressed = [0, 0];
    view.addEventListener("pointerdown", (event) => { pressed = [event.clientX, event.clientY]; });
    view.addEventListener("click", (event, item) => {
      const still = Math.hypot(event.clientX - pressed[0], event.clientY - pressed[1]) < 4;
      if (still && Number.isInteger(item?.datum?.person)) update({ focus: item.datum.person }, true);
    });
  }

  function choosing(name, within) {
    views[name]?.addSignalListener("brush", (_, range) => {
      if (clearing) return;
      const ranges = Object.keys(range).length ? range : null;
      Object.keys(views).filter((other) => other !== name).forEach(clearBrush);
      later(() => update({ chosen: new Set(ranges ? presentRows.filter((row) => within(row, ranges)).map((row) => row.person) : []), page: 0 }));
    });
  }
  let clearing = false;
  function clearBrush(name) {
    if (!BRUSHED.includes(name) || !views[name] || !views[name].data("brush_store").length) return;
    clearing = true;
    for (const side of name === "people" ? ["brush_x", "brush_y"] : ["brush_x"]) views[name].signal(side, [0, 0]);
    views[name].run();
    clearing = false;
  }
  const between = (value, [from, to]) => value !== null && value >= from && value <= to;
  let waiting = null;
  const later = (work) => {  // at most once a frame while dragging
    if (waiting === null) requestAnimationFrame(() => { const last = waiting; waiting = null; last(); });
    waiting = work;
  };

  function drawPeople() {
    put("people", { people: presentRows });
    put("distribution", { people: presentRows });
    put("exposure", { sided });
    put("privacy", { bounded });
    signal("level", state.level);
  }
  function drawChosen() {
    const rows = presentRows.filter((row) => state.chosen.has(row.person));
    const persons = rows.map((row) => row.person);
    signal("someone", state.chosen.size > 0);
    put("people", { chosen: rows });
    put("distribution", { chosen: rows });
    put("trade_off", { chosen: lineRows(persons.slice(0, MOST_LINES)) });
    put("groups", { chosen: groupTicks(persons) });
    put("exposure", { chosen: sided.filter((row) => state.chosen.has(row.person)) });
    put("privacy", { chosen: bounded.filter((row) => state.chosen.has(row.person) && row.epsilon_lower !== null) });
  }
  function drawFocus() {
    const rows = state.focus === null ? [] : [peopleRow(state.focus)];
    const persons = rows.map((row) => row.person);
    put("people", { focus: rows });
    put("distribution", { focus: rows });
    put("trade_off", { focus: lineRows(persons) });
    put("groups", { focus: groupTicks(persons) });
    put("exposure", { focus: sided.filter((row) => row.person === state.focus) });
    put("privacy", { focus: bounded.filter((row) => row.person === state.focus && row.epsilon_lower !== null) });
  }

  // ---- The table ----
  const anyone = (name) => people.levels.some((level) => level[name]?.some((value) => value !== null));
  const distinct = (level, name) => [...new Set((level[name] ?? []).filter((value) => value !== null))];
  const alike = (name) => people.shown > 1 && people.levels.every((level) => distinct(level, name).length <= 1);  // said once, not in every row
  const text = (key, title, of) => ({ key, title, of, print: of, number: false });
  const tableColumns = [
    text("id", "Person", (person) => people.id[person]),
    text("part", "Part", (person) => people.part[person]),
    text("label", "Label", (person) => nameOf(classes, people.label[person])),
    text("predicted", "Decided", (person) => nameOf(classes, columns().predicted[person])),
    ...quantities.filter(({ name }) => anyone(name) && !alike(name)).map(({ name, title, meaning, show }) => ({
      key: name, title, meaning, number: true, of: (person) => columns()[name][person], print: (person) => shown(columns()[name][person], show),
    })),
    ...groups.map((group, index) => text(`group-${index}`, group.name, (person) => nameOf(group.levels, people.groups[index][person]))),
  ];
  const order = new Intl.Collator("en", { numeric: true });
  const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : order.compare(String(a), String(b)));
  const searchable = (person) => tableColumns.filter((column) => !column.number).map((column) => column.of(person) ?? "").join("\n").toLowerCase();

  function found() {
    const wanted = state.search.trim().toLowerCase();
    const persons = present.filter((person) => (!state.onlyChosen || state.chosen.has(person)) && (!wanted || searchable(person).includes(wanted)));
    const { of } = tableColumns.find((column) => column.key === state.sort.key) ?? tableColumns[0];
    const known = persons.filter((person) => of(person) !== null), unknown = persons.filter((person) => of(person) === null);
    const sign = state.sort.descending ? -1 : 1;
    known.sort((a, b) => sign * compare(of(a), of(b)) || a - b);
    return [...known, ...unknown];  // who has no number comes last, however sorted
  }

  function meter(value) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "meter");
    svg.setAttribute("aria-hidden", "true");
    for (const width of [100, 100 * Math.max(0, Math.min(1, value ?? 0))]) {
      const rect = document.createElementNS(svg.namespaceURI, "rect");
      Object.entries({ width: `${width}%`, height: "100%", rx: 2 }).forEach(([name, one]) => rect.setAttribute(name, one));
      svg.append(rect);
    }
    return svg;
  }

  function cell(column, person) {
    const content = column.print(person) ?? "–";
    if (column.key === "id") {
      const link = element("button", { type: "button", className: "link", textContent: content, title: String(content).slice(0, 300) });
      link.addEventListener("click", () => update({ focus: person }, true));
      return element("th", { scope: "row" }, link);
    }
    if (!column.number) return element("td", { className: "text", textContent: content, title: String(content).slice(0, 300) });
    const made = element("td", { className: "number" });
    if (column.key !== "disagreement") made.append(content);
    else made.append(meter(column.of(person)), element("span", { className: "beside", textContent: content }));
    return made;
  }

  function row(person) {
    const box = element("input", { type: "checkbox", checked: state.chosen.has(person), ariaLabel: `Choose ${String(people.id[person]).slice(0, 80)}` });
    box.addEventListener("change", () => {
      const chosen = new Set(state.chosen);
      if (box.checked) chosen.add(person); else chosen.delete(person);
      BRUSHED.forEach(clearBrush);
      update({ chosen });
    });
    const made = element("tr", { className: state.chosen.has(person) ? "chosen" : "" }, element("td", {}, box), ...tableColumns.map((column) => cell(column, person)));
    made.dataset.person = person;
    return made;
  }

  function drawHead() {
    const cells = tableColumns.map((column) => {
      const button = element("button", { type: "button", textContent: column.title.slice(0, 60), title: (column.meaning ?? column.title).slice(0, 300) });
      button.addEventListener("click", () => {
        const same = state.sort.key === column.key;
        update({ sort: { key: column.key, descending: same ? !state.sort.descending : column.number }, page: 0 });
      });
      const head = element("th", { scope: "col", className: column.number ? "number" : "" }, button);
      head.dataset.column = column.key;
      return head;
    });
    byId("table").tHead.replaceChildren(element("tr", {}, element("th", { scope: "col" }, element("span", { className: "hidden-label", textContent: "Choose" })), ...cells));
  }

  function drawTable() {
    const persons = found(), pages = Math.max(1, Math.ceil(persons.length / PAGE));
    state.page = Math.min(state.page, pages - 1);
    const held = document.activeElement?.closest?.("#table tbody tr")?.dataset.person;  // keep the keyboard's place
    const heldTag = document.activeElement?.tagName;
    byId("table").tBodies[0].replaceChildren(...persons.slice(state.page * PAGE, (state.page + 1) * PAGE).map(row));
    if (held !== undefined) byId("table").querySelector(`tr[data-person="${held}"] ${heldTag.toLowerCase()}`)?.focus();
    for (const head of byId("table").tHead.querySelectorAll("[data-column]")) {
      if (head.dataset.column === state.sort.key) head.ariaSort = state.sort.descending ? "descending" : "ascending";
      else head.removeAttribute("aria-sort");
    }
    byId("found").textContent = `${plural(persons.length, "person", "people")} found`;
    byId("page").textContent = `Page ${state.page + 1} of ${pages}`;
    byId("previous-page").disabled = state.page === 0;
    byId("next-page").disabled = state.page >= pages - 1;
    byId("choose-found").disabled = persons.length === 0;
  }

  // ---- One person ----
  function badge(name) {
    const { kind, confidence, note } = people.kinds[name] ?? {};
    if (!kind) return [];
    const words = confidence ? `${kind} ${Number((100 * confidence).toPrecision(6))} %` : kind;
    const made = [element("span", { className: `kind kind-${kind}`, textContent: words, title: kinds[kind] })];
    return note ? [...made, element("span", { className: "note", textContent: note })] : made;
  }
  function rank(name) {
    const short = name === "membership_advantage" ? "membership" : name;
    const place = columns()[`rank_${short}`]?.[state.focus];
    if (!place) return "";
    const of = columns().ranked?.[short];
    return `Rank ${place.toLocaleString("en-US")}${of ? ` of ${of.toLocaleString("en-US")}` : ""}, 1 is the ${["reconstruction", "uncertainty_left"].includes(name) ? "smallest" : "largest"}.`;
  }
  function interval(name, level = columns(), show = undefined) {
    const [from, to] = [level[`${name}_lower`]?.[state.focus] ?? null, level[`${name}_upper`]?.[state.focus] ?? null];
    return from === null || to === null ? "" : `${shown(from, show)} to ${shown(to, show)}`;
  }
  function quantity({ name, title, meaning, show }) {
    const value = columns()[name][state.focus];
    const how = element("p", { className: "how" }, ...badge(name), element("span", { className: "interval", textContent: ["disagreement", "advantage", "uncertainty_left"].includes(name) ? interval(name, columns(), show) : "" }));
    return element("article", { className: "quantity" }, element("h3", { textContent: title }), element("p", { className: "big", textContent: shown(value, show) }),
      ...(value === null ? [] : [how]), element("p", { className: "meaning", textContent: value === null ? people.kinds[name]?.empty ?? "Not known for this person: they were not audited for it." : meaning }),
      element("p", { className: "rank", textContent: rank(name) }));
  }
  function drawPerson() {
    const person = state.focus;
    byId("person").hidden = person === null;
    if (person === null) return;
    const known = quantities.filter(({ name }) => anyone(name));
    byId("person-title").textContent = String(people.id[person]);
    const facts = [`At ${levels[state.level].label}`, people.part[person] === "train" ? "in the training data" : "in the test data",
      `label ${nameOf(classes, people.label[person]) ?? "unknown"}`, `decided ${nameOf(classes, columns().predicted[person]) ?? "unknown"} by most ${MODELS[columns().in_models?.[person]] ?? "models"}`,
      ...groups.map((group, index) => `${group.name}: ${nameOf(group.levels, people.groups[index][person]) ?? "unknown"}`)];
    byId("person-facts").textContent = facts.join(" · ");
    byId("person-numbers").replaceChildren(...known.map(quantity));
    const head = (title, number = true) => element("th", { scope: "col", className: number ? "number" : "", textContent: title });
    byId("person-levels").tHead.replaceChildren(element("tr", {}, head("Privacy level", false), head("Decided", false), ...known.map(({ title }) => head(title)), head("Interval of disagreement")));
    byId("person-levels").tBodies[0].replaceChildren(...levels.map((level, index) => {
      const at = people.levels[index];
      const number = (content) => element("td", { className: "number", textContent: content });
      return element("tr", { className: index === state.level ? "now" : "" }, element("th", { scope: "row", className: "text", textContent: level.label }),
        element("td", { className: "text", textContent: nameOf(classes, at.predicted[person]) ?? "–" }),
        ...known.map(({ name, show }) => number(shown(at[name][person], show))), number(interval("disagreement", at) || "–"));
    }));
  }
  function step(by) {
    const persons = found(), place = persons.indexOf(state.focus);
    if (persons.length) update({ focus: persons[(place + by + persons.length) % persons.length] });
  }

  // ---- Change: merge into the state, redraw what depends on it ----
  function update(change, scroll = false) {
    Object.assign(state, change);
    const has = (...names) => names.some((name) => name in change);
    if (has("level", "filters")) {
      present = everyone.filter(passes);
      presentRows = present.map(peopleRow);
      bounded = boundedRows();
      sided = sidedRows();
      drawPeople();
      drawControls();
    }
    if (has("level", "filters", "chosen")) { drawChosen(); drawStatus(); }
    if (has("level", "filters", "focus")) { drawFocus(); drawPerson(); }
    run();
    drawTable();
    if (scroll && state.focus !== null) {
      history.replaceState(null, "", `#person-${state.focus}`);
      byId("person").scrollIntoView({ block: "start" });
      byId("person-title").focus({ preventScroll: true });
    }
  }
  function drawControls() {
    byId("level-name").textContent = levels[state.level].label;
    byId("alike").textContent = quantities.filter(({ name }) => anyone(name) && alike(name) && distinct(columns(), name).length).map(({ name, title, show }) => `${title}: ${shown(distinct(columns(), name)[0], show)} for everybody who has one.`).join(" ");
    byId("level").setAttribute("aria-valuetext", levels[state.level].label);
  }
  function drawStatus() {
    const count = present.filter((person) => state.chosen.has(person)).length;
    document.body.classList.toggle("some", count > 0);
    byId("chosen-count").textContent = count ? `${plural(count, "person", "people")} chosen` : "Nobody chosen";
    byId("clear").disabled = state.chosen.size === 0;
  }

  // ---- What the reader can do ----
  function filter(group, index) {
    const select = element("select", {}, element("option", { value: "", textContent: "Everyone" }),
      ...group.levels.map((name, place) => element("option", { value: place, textContent: name.slice(0, 80) })));
    select.addEventListener("change", () => update({ filters: state.filters.map((old, at) => (at === index ? (select.value === "" ? null : Number(select.value)) : old)), page: 0 }));
    return element("label", {}, element("span", { textContent: group.name }), select);
  }
  function connect() {
    const on = (id, event, work) => byId(id).addEventListener(event, work);
    byId("filters").append(...groups.map(filter));
    on("level", "input", (event) => { BRUSHED.forEach(clearBrush); update({ level: Number(event.target.value) }); });  // people stay chosen, the rectangle is no longer theirs
    on("search", "input", (event) => update({ search: event.target.value, page: 0 }));
    on("only-chosen", "change", (event) => update({ onlyChosen: event.target.checked, page: 0 }));
    on("choose-found", "click", () => { BRUSHED.forEach(clearBrush); update({ chosen: new Set(found()) }); });
    on("clear", "click", () => { BRUSHED.forEach(clearBrush); update({ chosen: new Set(), page: 0 }); });
    on("previous-page", "click", () => update({ page: state.page - 1 }));
    on("next-page", "click", () => update({ page: state.page + 1 }));
    on("person-before", "click", () => step(-1));
    on("person-after", "click", () => step(1));
    on("person-close", "click", () => { history.replaceState(null, "", "#people"); update({ focus: null }); });
    choosing("people", (row, range) => between(row.disagreement, range.disagreement) && between(row.exposure, range.exposure));
    choosing("distribution", (row, range) => row.disagreement !== null && between(Math.min(row.disagreement, 1), range.disagreement));
  }
  function theme() {
    const root = document.documentElement, dark = matchMedia("(prefers-color-scheme: dark)");
    const isDark = () => (root.dataset.theme ?? (dark.matches ? "dark" : "light")) === "dark";
    const draw = () => { byId("theme").textContent = isDark() ? "Light" : "Dark"; byId("theme").ariaLabel = `Switch to ${isDark() ? "light" : "dark"} colours`; recolour(); };
    byId("theme").hidden = false;
    byId("theme").addEventListener("click", () => { root.dataset.theme = isDark() ? "light" : "dark"; draw(); });
    dark.addEventListener("change", draw);
    let before;
    addEventListener("beforeprint", () => {
      before = root.dataset.theme;
      root.dataset.theme = "light";
      signal("width", PRINT_WIDTH);
      Object.entries(views).forEach(([name, view]) => name === "groups" || view.signal("height", PRINT_HEIGHT));
      recolour();
    });
    addEventListener("afterprint", () => {
      if (before) root.dataset.theme = before; else delete root.dataset.theme;
      Object.entries(views).forEach(([name, view]) => view.signal("height", specifications[name].height));
      draw();
      dispatchEvent(new Event("resize"));  // charts take the width of their containers again
    });
    draw();
  }

  await Promise.all([...document.querySelectorAll("figure[data-chart]")].map(embed));
  Object.entries(fixedRows).forEach(([name, data]) => put(name, data));
  signal("labels", levels.map((level) => level.label));
  signal("names", groupNames);
  drawHead();
  connect();
  const linked = /^#person-(\d+)$/.exec(location.hash);
  const start = linked && Number(linked[1]) < people.shown ? Number(linked[1]) : null;
  update({ level: state.level, focus: start }, start !== null);
  theme();
  window.seedscope = { state, views };  // for whoever wants to look at the charts' data in the browser's console
  document.documentElement.dataset.ready = "yes";
})();
