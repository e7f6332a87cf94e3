"use strict";

// The time axis: any part of the recording, from all of it to a millisecond, in the chosen zone.  Times are µs since the start.
(() => {
  const board = document.getElementById("time");
  if (!board) return;
  const SHORTEST_US = 1000, TICK_PX = 96, LABEL_PX = 6.4, SLIVER_PERCENT = 0.15;
  const firstNs = BigInt(board.dataset.firstNs);
  const wholeUs = Math.max(Number((BigInt(board.dataset.lastNs) - firstNs) / 1000n), SHORTEST_US);
  const frame = document.getElementById("axis"), axis = board.querySelector(".time-axis");
  const list = board.querySelector(".lane-list"), cursor = board.querySelector(".time-cursor");
  const placed = [...board.querySelectorAll("[data-from]")].map((element) => ({ element, from: Number(element.dataset.from), to: Number(element.dataset.to) }));
  const numbers = [...board.querySelectorAll("[data-at]")].filter((element) => element.tagName === "text").map((element) => ({ element, at: Number(element.dataset.at), end: Number(element.previousElementSibling.dataset.to) }));
  const stories = [...document.querySelectorAll(".story")];
  let from = 0, to = wholeUs, zone = "utc";

  const SVG = "http://www.w3.org/2000/svg";
  const made = (name, attributes, text) => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text !== undefined) element.textContent = text;
    return element;
  };
  const percent = (us) => (100 * (us - from)) / (to - from);

  // Ticks.
  const SECOND = 1e6, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;
  const STEPS = [100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND),
    ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE), ...[1, 2, 3, 6, 12].map((n) => n * HOUR), ...[1, 2, 7].map((n) => n * DAY)];
  const MONTHS = [1, 3, 6, 12, 24, 60, 120];
  const padded = (number, digits = 2) => String(number).padStart(digits, "0");
  const firstMs = Number(firstNs / 1000000n), firstRestUs = Number((firstNs / 1000n) % 1000n);
  const date = (us) => new Date(firstMs + Math.floor((us + firstRestUs) / 1000));
  const offsetUs = (us) => (zone === "local" ? -date(us).getTimezoneOffset() * MINUTE : 0);
  const parts = (us) => { // the calendar of the chosen zone
    const at = new Date(date(us).getTime() + offsetUs(us) / 1000);
    return { year: at.getUTCFullYear(), month: at.getUTCMonth(), day: at.getUTCDate(), clock: at.toISOString().slice(11, 19), restUs: (((Math.round(us) + firstRestUs) % 1000) + 1000) % 1000 + 1000 * at.getUTCMilliseconds() };
  };
  const fraction = (restUs, stepUs) => (stepUs >= SECOND ? "" : stepUs >= 1000 ? `.${padded(Math.floor(restUs / 1000), 3)}` : `.${padded(restUs, 6)}`);
  function since(us, stepUs) {
    const sign = us < 0 ? "−" : "+", whole = Math.floor(Math.abs(us) / SECOND), rest = Math.round(Math.abs(us) % SECOND);
    if (whole < 60) return `${sign}${whole}${fraction(rest, stepUs)} s`;
    const clock = `${padded(Math.floor(whole / 60) % 60)}:${padded(whole % 60)}${fraction(rest, stepUs)}`;
    return `${sign}${Math.floor(whole / 3600)}:${clock}`;
  }
  function label(us, stepUs) {
    if (zone === "start") return since(us, stepUs);
    const at = parts(us), day = `${at.year}-${padded(at.month + 1)}-${padded(at.day)}`;
    if (stepUs >= DAY) return stepUs > 27 * DAY ? day.slice(0, 7) : day;
    return `${stepUs >= MINUTE ? at.clock.slice(0, 5) : at.clock}${fraction(at.restUs, stepUs)}`;
  }
  function ticks(widthPx) {
    const least = ((to - from) * TICK_PX) / widthPx;
    const stepUs = STEPS.find((step) => step >= least);
    if (stepUs !== undefined || zone === "start") {
      const step = stepUs ?? Math.ceil(least / DAY) * DAY;
      const origin = zone === "start" ? 0 : firstMs * 1000 + firstRestUs + offsetUs(from); // ticks fall on whole steps of the zone's clock
      const first = Math.ceil((from + origin) / step) * step - origin;
      const times = [];
      for (let at = first; at <= to; at += step) times.push(at);
      return [times, step];
    }
    const months = MONTHS.find((count) => count * 30.4 * DAY >= least) ?? Math.ceil(least / (3652 * DAY)) * 120;
    const times = [];
    const begin = parts(from);
    for (let month = Math.floor((begin.year * 12 + begin.month) / months) * months; ; month += months) {
      const at = Date.UTC(Math.floor(month / 12), month % 12, 1);
      const us = (at - firstMs) * 1000 - firstRestUs - offsetUs((at - firstMs) * 1000);
      if (us > to) return [times, months * 30 * DAY];
      if (us >= from) times.push(us);
    }
  }
  function drawAxis() {
    const width = axis.clientWidth || 1000;
    const [times, step] = ticks(width);
    axis.replaceChildren();
    for (const at of times) {
      const x = percent(at);
      axis.append(made("line", { class: "tick", x1: `${x}%`, x2: `${x}%`, y1: 20, y2: 26 }));
      if (x * width / 100 > TICK_PX * 1.2 && (100 - x) * width / 100 > TICK_PX / 2) axis.append(made("text", { x: `${x}%`, y: 16, "text-anchor": "middle" }, label(at, step)));
    }
    axis.append(made("text", { class: "tick-first", x: 0, y: 16 }, zone === "start" ? since(from, step) : timeText(from).slice(0, 10)));
    frame.setAttribute("aria-valuenow", String(Math.round(from / 1000)));
    frame.setAttribute("aria-valuetext", `${timeText(from)} to ${timeText(to)}`);
  }
  function timeText(us) {
    if (zone === "start") return since(us, 1000);
    const at = parts(us);
    return `${at.year}-${padded(at.month + 1)}-${padded(at.day)} ${at.clock}${fraction(at.restUs, 1000)}${zone === "utc" ? " UTC" : ""}`;
  }

  // Lanes.
  function drawLanes() {
    const width = axis.clientWidth || 1000;
    for (const label of board.querySelectorAll(".role-label")) label.remove();
    for (const { element, from: start, to: end } of placed) {
      const left = percent(start), right = percent(end);
      const hidden = right < 0 || left > 100;
      element.toggleAttribute("hidden", hidden);
      if (hidden) continue;
      const x = Math.max(left, -1), size = Math.max(Math.min(right, 101) - x, SLIVER_PERCENT);
      element.setAttribute("x", `${Math.min(x, 100 - SLIVER_PERCENT)}%`);
      element.setAttribute("width", `${size}%`);
      if (element.classList.contains("role")) {
        const shown = element.querySelector("title").textContent, seen = Math.max(x, 0);
        const room = ((x + size - seen) * width) / 100;
        const short = shown.match(/epoch \d+/)?.[0] ?? "";
        const fits = [shown, short].find((text) => text && text.length * LABEL_PX < room - 6);
        if (fits) element.after(made("text", { class: "role-label", x: `${seen}%`, dx: 3, y: 11 }, fits));
        if (left > 0) element.classList.add("begins");
      }
    }
    let free = 0;
    for (const { element, at, end } of numbers) {
      const x = percent(at), place = Math.max((x * width) / 100, free);
      element.toggleAttribute("hidden", x > 100 || percent(end) < 0);
      element.setAttribute("x", place);
      if (!element.hasAttribute("hidden")) free = place + (element.textContent.length + 1) * LABEL_PX;
    }
  }
  let asked = false;
  function draw() {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => { asked = false; drawAxis(); drawLanes(); });
  }
  function show(start, end) {
    const length = Math.min(Math.max(end - start, SHORTEST_US), wholeUs);
    from = Math.min(Math.max(start, 0), wholeUs - length);
    to = from + length;
    cursor.hidden = true;
    draw();
  }
  function zoom(factor, at = (from + to) / 2) {
    const length = Math.min(Math.max((to - from) * factor, SHORTEST_US), wholeUs);
    const start = at - ((at - from) / (to - from)) * length;
    show(start, start + length);
  }
  const move = (share) => show(from + share * (to - from), to + share * (to - from));
  const timeAt = (clientX) => { const box = axis.getBoundingClientRect(); return from + ((clientX - box.left) / box.width) * (to - from); };

  // Stories.
  function point(us, nodes) {
    const box = axis.getBoundingClientRect(), x = percent(us);
    cursor.hidden = x < 0 || x > 100;
    cursor.style.left = `${box.left - list.getBoundingClientRect().left + (x / 100) * box.width}px`;
    for (const row of board.querySelectorAll(".lane-row")) row.classList.toggle("highlighted", nodes.includes(row.dataset.node));
  }
  function highlight(step, scroll) {
    for (const element of document.querySelectorAll(".steps .highlighted, .mark.highlighted")) element.classList.remove("highlighted");
    if (!step) return;
    step.classList.add("highlighted");
    for (const mark of board.querySelectorAll(`[data-step="${step.id}"]`)) mark.classList.add("highlighted");
    if (scroll) step.scrollIntoView({ block: "nearest" });
    point(Number(step.dataset.at), step.dataset.nodes.split(" "));
  }
  function choose(story, focus) {
    const start = Number(story.dataset.from), end = Number(story.dataset.to), margin = Math.max((end - start) / 10, SHORTEST_US);
    for (const other of stories) other.classList.toggle("chosen", other === story);
    const details = story.querySelector("details");
    if (details) details.open = true;
    show(start - margin, end + margin);
    if (focus) { story.focus({ preventScroll: true }); story.scrollIntoView({ block: "nearest" }); }
  }
  function step(by) {
    const now = stories.findIndex((story) => story.classList.contains("chosen"));
    const next = stories[Math.min(Math.max(now + by, 0), stories.length - 1)];
    if (next) { choose(next, false); next.scrollIntoView({ block: "nearest" }); }
  }
  for (const item of document.querySelectorAll(".steps > li")) {
    item.tabIndex = 0;
    item.addEventListener("pointerenter", () => highlight(item, false));
    item.addEventListener("focus", () => highlight(item, false));
    item.addEventListener("click", () => { const at = Number(item.dataset.at); if (at < from || at > to) show(at - (to - from) / 2, at + (to - from) / 2); highlight(item, false); });
  }
  list.addEventListener("pointerover", (event) => { const mark = event.target.closest?.("[data-step]"); if (mark) highlight(document.getElementById(mark.dataset.step), false); });
  list.addEventListener("click", (event) => {
    const mark = event.target.closest?.("[data-step]"), chosenStep = mark && document.getElementById(mark.dataset.step);
    if (chosenStep) { chosenStep.closest("details").open = true; highlight(chosenStep, true); }
  });
  for (const link of board.querySelectorAll(".lane-incidents a")) {
    link.addEventListener("click", (event) => {
      const story = document.querySelector(link.getAttribute("href"));
      if (story) { event.preventDefault(); choose(story, true); }
    });
  }

  // Keys, wheel, fingers, buttons.
  frame.addEventListener("keydown", (event) => {
    const done = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), ArrowUp: () => zoom(0.5), ArrowDown: () => zoom(2),
      Home: () => show(0, to - from), End: () => show(wholeUs - (to - from), wholeUs), 0: () => show(0, wholeUs), n: () => step(1), p: () => step(-1), N: () => step(1), P: () => step(-1) }[event.key];
    if (done && !event.ctrlKey && !event.metaKey && !event.altKey) { event.preventDefault(); done(); }
  });
  board.addEventListener("wheel", (event) => {
    const head = event.target.closest(".time-head");
    if (!event.ctrlKey && !event.metaKey && !head) return;
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) move((event.deltaX || event.deltaY) / 1000);
    else zoom(Math.exp(Math.max(Math.min(event.deltaY, 240), -240) / 240), timeAt(event.clientX));
  }, { passive: false });
  const fingers = new Map();
  board.addEventListener("pointerdown", (event) => { if (event.target.closest("svg, #axis")) fingers.set(event.pointerId, event.clientX); });
  board.addEventListener("pointermove", (event) => {
    if (!fingers.has(event.pointerId)) return;
    const before = [...fingers.values()].slice(0, 2);
    fingers.set(event.pointerId, event.clientX);
    const after = [...fingers.values()].slice(0, 2);
    const width = axis.clientWidth || 1;
    if (after.length === 2) {
      const spread = Math.abs(before[0] - before[1]) || 1, now = Math.abs(after[0] - after[1]) || 1;
      zoom(spread / now, timeAt((after[0] + after[1]) / 2));
    } else if (event.buttons) move((before[0] - after[0]) / width);
  });
  for (const kind of ["pointerup", "pointercancel", "pointerleave"]) board.addEventListener(kind, (event) => fingers.delete(event.pointerId));
  for (const button of board.querySelectorAll("[data-zoom]")) {
    button.addEventListener("click", () => ({ in: () => zoom(0.5), out: () => zoom(2), all: () => show(0, wholeUs) })[button.dataset.zoom]());
  }
  for (const input of board.querySelectorAll("input[name=zone]")) input.addEventListener("change", () => { zone = input.value; draw(); });
  window.addEventListener("resize", draw);
  window.addEventListener("beforeprint", () => show(0, wholeUs));
  draw();
})();
