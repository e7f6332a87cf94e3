"use strict";
// Prefixes as an icicle: a bar for each, as wide as it weighs, below the prefix that it continues.  A click or Enter zooms in, Escape out;
// Tab stops at one bar, the arrows lead from it to the others.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent).prefixes;
  const figure = document.getElementById("icicle");
  if (!data || !figure) return;
  const ROW = 34, NS = "http://www.w3.org/2000/svg", LETTER = 7.2, NARROW = 28;
  const trail = [data.root];
  const readout = document.getElementById("icicle-readout");
  const percent = (share) => figures.percent(share, 1);
  const isShare = (metric) => metric === "expiry" || metric === "cold";
  const chosen = () => document.querySelector("input[name=icicle-colour]:checked").value;
  const depth = (node) => 1 + Math.max(0, ...(node.children || []).map(depth));
  const all = (node, found = []) => { found.push(node); (node.children || []).forEach((child) => all(child, found)); return found; };

  const level = (node, metric, peak) => {
    const value = node[metric];
    if (value === null || value === undefined) return null;
    if (isShare(metric)) return value;
    return Math.sqrt(Math.min(value / peak, 1));
  };
  const words = (node) => {
    const parts = [`${node.name || "all keys"}: ${figures.count(node.keys)} keys`];
    parts.push(data.isSize ? `${figures.size(node.weight)} of ${data.by}` : `${figures.count(node.weight)} ${data.by}`);
    parts.push(`${percent(node.weight / (data.root.weight || 1))} of all`);
    if (node.heat !== null && node.heat !== undefined) parts.push(`${figures.count(Math.round(node.heat))} accesses a second`);
    if (node.expiry !== null && node.expiry !== undefined) parts.push(`${percent(node.expiry)} of keys expire`);
    if (node.cold !== null && node.cold !== undefined) parts.push(`${percent(node.cold)} untouched for 7 days`);
    return parts.join(" · ");
  };
  const draw = (focus = null) => {
    const top = trail[trail.length - 1], metric = chosen(), width = figure.clientWidth || 600;
    const peak = Math.max(1e-9, ...all(data.root).slice(1).map((node) => node[metric] || 0));
    const svg = document.createElementNS(NS, "svg");
    svg.setAttribute("width", width);
    svg.setAttribute("height", depth(top) * ROW);
    svg.setAttribute("role", "group");
    svg.setAttribute("aria-label", "Prefixes by weight");
    let first = null;
    const place = (node, x, room, row, above) => {
      if (room < 1) return null;
      const group = document.createElementNS(NS, "g");
      const rect = document.createElementNS(NS, "rect");
      const shade = level(node, metric, peak);
      rect.setAttribute("x", x);
      rect.setAttribute("y", row * ROW);
      rect.setAttribute("width", Math.max(room - 1, 0.5));
      rect.setAttribute("height", ROW - 2);
      rect.setAttribute("class", shade === null ? "icicle-unknown" : `icicle-bar icicle-${Math.min(Math.floor(Math.max(shade, 0) * 6), 5)}`);
      group.append(rect);
      if (room > NARROW) {
        const label = document.createElementNS(NS, "text");
        const name = node.name || "all keys", letters = Math.floor((room - 10) / LETTER);
        label.setAttribute("x", x + 5);
        label.setAttribute("y", row * ROW + ROW / 2 + 4);
        label.setAttribute("class", shade !== null && shade >= 0.5 ? "icicle-label on-dark" : "icicle-label");
        label.textContent = name.length > letters ? `${name.slice(0, Math.max(letters - 1, 1))}…` : name;
        group.append(label);
      }
      group.setAttribute("tabindex", first === null ? "0" : "-1");
      const near = { ArrowUp: above };
      const go = (key) => {
        if (!near[key]) return;
        group.setAttribute("tabindex", "-1");
        near[key].setAttribute("tabindex", "0");
        near[key].focus();
      };
      group.setAttribute("role", "button");
      const title = document.createElementNS(NS, "title");
      title.textContent = words(node);
      group.prepend(title);
      const show = () => { readout.textContent = words(node); };
      group.addEventListener("mouseenter", show);
      group.addEventListener("focus", show);
      const zoom = () => {
        if (node === top) { if (trail.length > 1) trail.pop(); } else trail.push(node);
        draw(true);
      };
      group.addEventListener("click", zoom);
      group.addEventListener("keydown", (event) => {
        if (event.key === "Enter" || event.key === " ") { event.preventDefault(); zoom(); }
        if (event.key === "Escape" && trail.length > 1) { trail.pop(); draw(true); }
        if (event.key.startsWith("Arrow")) { event.preventDefault(); go(event.key); }
      });
      svg.append(group);
      first = first || group;
      let at = x, before = null;
      for (const child of node.children || []) {
        const part = room * child.weight / (node.weight || 1);
        const placed = place(child, at, part, row + 1, group);
        if (placed) {
          placed.near.ArrowLeft = before && before.group;
          if (before) before.near.ArrowRight = placed.group; else near.ArrowDown = placed.group;
          before = placed;
        }
        at += part;
      }
      return { group, near };
    };
    place(top, 0, width, 0, null);
    figure.replaceChildren(svg);
    readout.textContent = words(top) + (trail.length > 1 ? " · the first bar zooms out" : "");
    if (focus && first) first.focus();
  };
  document.querySelectorAll("input[name=icicle-colour]").forEach((input) => input.addEventListener("change", () => draw()));
  new ResizeObserver(() => draw()).observe(figure);
  draw();
})();
