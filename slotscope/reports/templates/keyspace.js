// The page of one snapshot: the map with its controls, the search and the download.
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  data.owner = data.owner.flatMap(([owner, count]) => Array(count).fill(owner)); // runs of slots
  const find = (selector) => document.querySelector(selector);
  const chosen = (name) => find(`input[name=${name}]:checked`)?.value;
  const ownerName = (slot) => {
    const node = data.nodes[data.owner[slot]];
    return node ? (node.name === node.address ? node.name : `${node.name} (${node.address})`) : "none";
  };

  // Facts of a slot
  function describe(slot) {
    const readout = find("#readout");
    const say = (field, text) => { readout.querySelector(`[data-field=${field}]`).textContent = text; };
    say("slot", String(slot));
    say("owner", ownerName(slot));
    say("keys", figures.count(data.keys[slot]));
    say("bytes", data.bytes ? figures.size(data.bytes[slot]) : "—");
    if (data.memory) say("memory", figures.size(data.memory[slot]));
    say("expires", figures.count(data.expires[slot]));
    say("topKey", data.topKey[slot] === "" ? "named in gold/big_keys" : data.topKey[slot] ?? "—");
    say("topTag", data.topTag[slot] ?? "—");
    const size = data.topKeyBytes[slot];
    say("topKeyBytes", size === null ? "" : figures.size(size));
    if (data.bytes) readout.querySelector("[data-field=bytes]").title = `${figures.count(data.bytes[slot])} bytes`;
  }
  const map = new SlotMap(data, find("#slot-map"), describe);

  // Legend
  function drawLegend() {
    const byOwner = map.metric === "owner", pale = !map.scale;
    find("#legend-ramp").hidden = find("#legend-ticks").hidden = byOwner || pale;
    find("#legend-owners").hidden = !byOwner;
    find("#legend-empty").hidden = byOwner;
    if (byOwner) { drawOwnerLegend(); return; }
    if (pale) return;
    const ramp = find("#legend-ramp"), pen = ramp.getContext("2d"), shades = slotColours.ramp[map.theme];
    ramp.width = 256;
    shades.forEach((shade, at) => { pen.fillStyle = shade; pen.fillRect(at, 0, 1, 12); });
    const write = map.metric === "bytes" || map.metric === "memory" ? figures.size : figures.count;
    find("#legend-ticks").replaceChildren(...[0, 0.25, 0.5, 0.75, 1].map((place) => {
      const tick = document.createElement("li");
      tick.textContent = write(Math.round(map.scale.value(place)));
      return tick;
    }));
  }
  function drawOwnerLegend() {
    const most = 24, entries = data.nodes.slice(0, most).map((node, at) => {
      const entry = document.createElement("li"), swatch = document.createElement("span");
      swatch.className = "swatch";
      swatch.style.background = slotColours.owner(at, map.theme);
      entry.append(swatch, node.name);
      return entry;
    });
    if (data.nodes.length > most) {
      entries.push(Object.assign(document.createElement("li"), { textContent: `and ${data.nodes.length - most} more` }));
    }
    find("#legend-owners").replaceChildren(...entries);
  }

  function redraw() {
    map.metric = chosen("metric");
    map.draw();
    drawLegend();
  }
  for (const input of document.querySelectorAll("input[name=metric]")) {
    input.addEventListener("change", redraw);
  }
  document.addEventListener("themechange", redraw);
  const theme = document.documentElement.dataset;
  let themeBeforePrint = theme.theme;
  addEventListener("beforeprint", () => { themeBeforePrint = theme.theme; theme.theme = "light"; redraw(); });
  addEventListener("afterprint", () => { theme.theme = themeBeforePrint; redraw(); });

  // Going to a slot
  function goTo(slot) {
    map.moveTo(slot);
    map.holder.scrollIntoView({ block: "nearest" });
  }
  function jumpTo(slot) {
    goTo(slot);
    map.holder.focus({ preventScroll: true });
  }
  for (const link of document.querySelectorAll("a[data-slot]")) {
    link.addEventListener("click", () => setTimeout(() => jumpTo(Number(link.dataset.slot))));
  }
  find("#find").addEventListener("submit", (event) => {
    event.preventDefault();
    const typed = find("#find-input").value, result = find("#find-result");
    if (typed === "") { result.textContent = ""; return; }
    const isSlot = /^\d{1,5}$/.test(typed) && Number(typed) < 16384;
    const slot = isSlot ? Number(typed) : slotOfKey(bytesOfShownKey(typed));
    goTo(slot);
    result.textContent = `${isSlot ? `Slot ${slot}` : `That key is in slot ${slot}`}, owner ${ownerName(slot)}.`;
  });

  redraw();
  describe(map.current);
})();
