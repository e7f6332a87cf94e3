// The page of a comparison: the map of what changed.
(() => {
  const holder = document.querySelector("#slot-map");
  if (!holder) return;
  const data = JSON.parse(document.getElementById("data").textContent);
  const find = (selector) => document.querySelector(selector);
  const metrics = ["memory", "bytes", "keys"];
  const write = (metric, value) => `${value > 0 ? "+" : value < 0 ? "−" : ""}${(metric === "keys" ? figures.count : figures.size)(Math.abs(value))}`;

  function describe(slot) {
    const say = (field, words) => { const place = find(`#readout [data-field=${field}]`); if (place) place.textContent = words; };
    const node = data.nodes[data.owner[slot]];
    say("slot", String(slot));
    say("owner", node ? `${node.name} (${node.address})` : "none");
    for (const metric of metrics) if (data[metric]) say(metric, write(metric, data[metric][slot]));
  }
  const map = new SlotMap(data, holder, describe, () => {});

  function redraw() {
    map.metric = find("input[name=metric]:checked").value;
    map.draw();
    const ramp = find("#legend-ramp"), pen = ramp.getContext("2d"), { less, more } = slotColours.change[map.theme];
    ramp.width = 512;
    [...less].reverse().concat(more).forEach((shade, at) => { pen.fillStyle = shade; pen.fillRect(at, 0, 1, 12); });
    const most = map.scale ? Math.round(map.scale.value(1)) : 0;
    find("#legend-ticks").replaceChildren(...[-most, 0, most].map((value) => Object.assign(document.createElement("li"), { textContent: write(map.metric, value) })));
  }
  for (const input of document.querySelectorAll("input[name=metric]")) input.addEventListener("change", redraw);
  for (const link of document.querySelectorAll("a[data-slot]")) {
    link.addEventListener("click", () => setTimeout(() => { map.moveTo(Number(link.dataset.slot)); map.holder.focus({ preventScroll: true }); }));
  }
  document.addEventListener("themechange", redraw);
  addEventListener("beforeprint", redraw);
  redraw();
  describe(map.current);
})();
