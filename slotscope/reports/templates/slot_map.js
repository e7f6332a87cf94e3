// The map of the 16384 slots: colours, scales, borders, the cursor and its label.
const slotColours = (() => {
  const ramps = { // monotonic lightness: readable without hue
    light: ["#d7e7ea", "#afd1d8", "#7ab3c1", "#4390ab", "#20658f", "#143f6b", "#0b1c3f"],
    dark: ["#20394a", "#234d64", "#246a81", "#3a919b", "#74b99f", "#bfdc9f", "#fbf7b5"],
  };
  const owners = { // told apart by people who see colours differently (after Okabe and Ito)
    light: ["#0072b2", "#d98c00", "#009e73", "#cc79a7", "#56b4e9", "#b84a00", "#8a7d00", "#6b5b95"],
    dark: ["#4ba3d9", "#e69f00", "#2bbd92", "#dd94be", "#8fd0f5", "#e8743a", "#e0d64a", "#a494d1"],
  };
  const parse = (hex) => [1, 3, 5].map((at) => parseInt(hex.slice(at, at + 2), 16));
  function ramp(colours) {
    const stops = colours.map(parse), shades = [];
    for (let at = 0; at < 256; at += 1) {
      const place = (at / 255) * (stops.length - 1), low = Math.min(Math.floor(place), stops.length - 2);
      const rgb = stops[low].map((value, i) => Math.round(value + (stops[low + 1][i] - value) * (place - low)));
      shades.push(`rgb(${rgb.join(" ")})`);
    }
    return shades;
  }
  const isDark = () => {
    const theme = document.documentElement.dataset.theme;
    return theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  };
  return {
    isDark,
    ramp: { light: ramp(ramps.light), dark: ramp(ramps.dark) },
    owner: (at, theme) => owners[theme][at % owners[theme].length],
  };
})();

// From a figure to a place between 0 and 1 and back, over the slots that hold anything.
function makeScale(values) {
  const sorted = values.filter((value) => value > 0).sort((a, b) => a - b);
  if (!sorted.length) return null;
  const least = sorted[0], most = sorted[sorted.length - 1];
  const span = Math.log(most / least);
  return {
    place: (value) => (span ? Math.log(value / least) / span : 1),
    value: (place) => least * Math.exp(span * place),
  };
}

// The slot of a key as a server finds it: CRC16/XMODEM of the hash tag, or of all of the key.
function slotOfKey(bytes) {
  const open = bytes.indexOf(0x7b), close = open < 0 ? -1 : bytes.indexOf(0x7d, open + 1);
  const hashed = close > open + 1 ? bytes.subarray(open + 1, close) : bytes;
  let crc = 0;
  for (const byte of hashed) {
    crc ^= byte << 8;
    for (let bit = 0; bit < 8; bit += 1) crc = crc & 0x8000 ? ((crc << 1) ^ 0x1021) & 0xffff : (crc << 1) & 0xffff;
  }
  return crc & 16383;
}

// The bytes of a key that is written as this page shows it.
function bytesOfShownKey(shown) {
  const encoder = new TextEncoder(), bytes = [];
  for (const [piece, hex, code] of shown.matchAll(/\\x([0-9a-f]{2})|\\u\{([0-9a-f]{1,6})\}|\\\\|[^]/giu)) {
    if (hex) bytes.push(parseInt(hex, 16));
    else if (code && parseInt(code, 16) <= 0x10ffff) bytes.push(...encoder.encode(String.fromCodePoint(parseInt(code, 16))));
    else bytes.push(...encoder.encode(piece === "\\\\" ? "\\" : piece));
  }
  return Uint8Array.from(bytes);
}

class SlotMap {
  static COLUMNS = 128;
  static ROWS = 128;

  constructor(data, holder, onMove) {
    Object.assign(this, { data, holder, onMove });
    this.cells = holder.querySelector("#slot-cells");
    this.overlay = holder.querySelector("#slot-cursor");
    this.metric = data.memory ? "memory" : data.bytes ? "bytes" : "keys";
    this.current = this.heaviest();
    holder.addEventListener("keydown", (event) => this.onKey(event));
    holder.addEventListener("pointermove", (event) => this.onPointer(event));
    holder.addEventListener("focus", () => this.drawCursor());
    holder.addEventListener("blur", () => this.drawCursor());
    new ResizeObserver(() => this.draw()).observe(holder.parentElement);
  }

  heaviest() {
    const values = (this.data.memory ?? this.data.bytes ?? this.data.keys).map(Math.abs);
    return values.reduce((best, value, slot) => (value > values[best] ? slot : best), 0);
  }

  // Sizes in device pixels; a cell is a whole number of them, without seams.
  layout() {
    const ratio = window.devicePixelRatio || 1, width = this.holder.parentElement.clientWidth;
    const wide = width >= 480;
    const left = Math.round((wide ? 46 : 1) * ratio), right = Math.round((wide ? 76 : 1) * ratio), top = Math.round(20 * ratio);
    const room = Math.min(width * ratio - left - right, 900 * ratio);
    const cell = Math.max(Math.floor(room / SlotMap.COLUMNS), 2);
    const size = cell * SlotMap.COLUMNS;
    return { ratio, left, right, top, cell, size, wide, width: left + size + right, height: top + size + Math.round(4 * ratio) };
  }

  draw() {
    const box = this.layout();
    this.box = box;
    for (const canvas of [this.cells, this.overlay]) {
      canvas.width = box.width;
      canvas.height = box.height;
      canvas.style.width = `${box.width / box.ratio}px`;
      canvas.style.height = `${box.height / box.ratio}px`;
    }
    this.theme = slotColours.isDark() ? "dark" : "light";
    const style = getComputedStyle(document.body);
    this.ink = style.color;
    this.pen = this.cells.getContext("2d");
    this.pen.clearRect(0, 0, box.width, box.height);
    this.drawCells();
    this.drawBorders();
    this.drawLabels(style.fontFamily);
    this.drawCursor();
  }

  drawCells() {
    const { left, top, cell, size } = this.box, { owner } = this.data, pen = this.pen;
    const values = this.metric === "owner" ? null : this.data[this.metric];
    this.scale = values && makeScale(values);
    const shades = slotColours.ramp[this.theme];
    pen.fillStyle = this.theme === "dark" ? "#10161b" : "#fbfcfc";
    pen.fillRect(left, top, size, size);
    for (let slot = 0; slot < owner.length; slot += 1) {
      const x = left + (slot & 127) * cell, y = top + (slot >> 7) * cell;
      if (!values) {
        if (owner[slot] >= 0) { pen.fillStyle = slotColours.owner(owner[slot], this.theme); pen.fillRect(x, y, cell, cell); }
      } else if (values[slot]) {
        pen.fillStyle = shades[Math.round(this.scale.place(values[slot]) * 255)];
        pen.fillRect(x, y, cell, cell);
      }
      if (owner[slot] < 0 && this.data.nodes.length) this.drawUnowned(x, y, cell);
    }
    pen.strokeStyle = this.theme === "dark" ? "#3a4751" : "#b9c2c7";
    pen.lineWidth = 1;
    pen.strokeRect(left - 0.5, top - 0.5, size + 1, size + 1);
  }

  drawUnowned(x, y, cell) {
    this.pen.strokeStyle = this.ink;
    this.pen.lineWidth = 1;
    this.pen.globalAlpha = 0.6;
    this.pen.beginPath();
    this.pen.moveTo(x, y + cell);
    this.pen.lineTo(x + cell, y);
    this.pen.stroke();
    this.pen.globalAlpha = 1;
  }

  // A line wherever two neighbours belong to different masters, dark on a light rim, visible on every shade.
  drawBorders() {
    const { left, top, cell, ratio } = this.box, { owner } = this.data, path = new Path2D();
    for (let slot = 0; slot < owner.length; slot += 1) {
      const column = slot & 127, row = slot >> 7, x = left + column * cell, y = top + row * cell;
      if (column < 127 && owner[slot] !== owner[slot + 1]) { path.moveTo(x + cell, y); path.lineTo(x + cell, y + cell); }
      if (row < 127 && owner[slot] !== owner[slot + 128]) { path.moveTo(x, y + cell); path.lineTo(x + cell, y + cell); }
    }
    const crowded = new Set(owner).size > 40;
    const dark = this.theme === "dark", lines = [[dark ? "#0b1014" : "#ffffff", 3], [dark ? "#ffffff" : "#11181d", 1.25]];
    for (const [colour, width] of crowded ? lines.slice(1) : lines) {
      this.pen.strokeStyle = colour;
      this.pen.lineWidth = crowded ? 1 : width * Math.max(ratio, 1);
      this.pen.globalAlpha = crowded ? 0.55 : 0.9;
      this.pen.stroke(path);
    }
    this.pen.globalAlpha = 1;
  }

  drawLabels(font) {
    const { left, top, cell, size, ratio, wide } = this.box, pen = this.pen;
    pen.fillStyle = this.ink;
    pen.globalAlpha = 0.72;
    pen.font = `${11 * ratio}px ${font}`;
    pen.textBaseline = "bottom";
    for (let column = 0; column < 128; column += 32) {
      pen.textAlign = column ? "center" : "left";
      pen.fillText(column ? `+${column}` : "slot", left + column * cell, top - 4 * ratio);
      if (column) pen.fillRect(left + column * cell, top - 4 * ratio, ratio, 3 * ratio);
    }
    if (!wide) { pen.globalAlpha = 1; return; }
    pen.textAlign = "right";
    pen.textBaseline = "middle";
    for (let row = 0; row < 128; row += 16) {
      pen.fillText(figures.count(row * 128), left - 7 * ratio, top + (row + 0.5) * cell);
      pen.fillRect(left - 4 * ratio, top + row * cell, 3 * ratio, ratio);
    }
    this.drawOwnerLabels();
    pen.globalAlpha = 1;
  }

  // The name of a master beside the rows that are mostly its own, where they are high enough to read it.
  drawOwnerLabels() {
    const { left, top, cell, size, ratio } = this.box, { owner, nodes } = this.data, pen = this.pen;
    const rowOwner = (row) => owner[row * 128 + 64];
    pen.textAlign = "left";
    for (let row = 0; row < 128;) {
      let end = row + 1;
      while (end < 128 && rowOwner(end) === rowOwner(row)) end += 1;
      const at = rowOwner(row), x = left + size + 5 * ratio;
      if (at >= 0 && (end - row) * cell >= 14 * ratio) {
        pen.fillRect(x, top + row * cell + 2 * ratio, ratio, (end - row) * cell - 4 * ratio);
        pen.fillText(nodes[at].name.slice(0, 9), x + 5 * ratio, top + ((row + end) / 2) * cell, 64 * ratio);
      }
      row = end;
    }
  }

  drawCursor() {
    const pen = this.overlay.getContext("2d"), { left, top, cell, ratio } = this.box;
    pen.clearRect(0, 0, this.overlay.width, this.overlay.height);
    const dark = this.theme === "dark";
    this.drawRings(pen, dark);
    const slot = this.current, grow = 2 * ratio;
    const x = left + (slot & 127) * cell - grow, y = top + (slot >> 7) * cell - grow, side = cell + 2 * grow;
    for (const [colour, width] of [[dark ? "#000000" : "#ffffff", 4], [dark ? "#ffffff" : "#000000", 1.75]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width * ratio;
      pen.strokeRect(x, y, side, side);
    }
  }

  // The ten slots with the largest figures: a heavy slot is one small cell among 16384.
  drawRings(pen, dark) {
    const values = this.metric === "owner" ? null : this.data[this.metric], { left, top, cell, ratio } = this.box;
    if (!values) return;
    const size = (slot) => Math.abs(values[slot]);
    const heaviest = [...values.keys()].filter(size).sort((a, b) => size(b) - size(a)).slice(0, 10);
    for (const [colour, width] of [[dark ? "#000000" : "#ffffff", 4], [dark ? "#ffb86b" : "#b3261e", 2]]) {
      pen.strokeStyle = colour;
      pen.lineWidth = width * ratio;
      for (const slot of heaviest) {
        pen.beginPath();
        pen.arc(left + ((slot & 127) + 0.5) * cell, top + ((slot >> 7) + 0.5) * cell, cell / 2 + 4 * ratio, 0, 2 * Math.PI);
        pen.stroke();
      }
    }
  }

  slotAt(event) {
    const { left, top, cell, ratio } = this.box, area = this.cells.getBoundingClientRect();
    const column = Math.floor(((event.clientX - area.left) * ratio - left) / cell);
    const row = Math.floor(((event.clientY - area.top) * ratio - top) / cell);
    return column >= 0 && column < 128 && row >= 0 && row < 128 ? row * 128 + column : null;
  }

  onPointer(event) {
    const slot = this.slotAt(event);
    if (slot !== null && slot !== this.current) this.moveTo(slot);
  }

  onKey(event) {
    const at = this.current, row = at - (at % 128), end = 16383;
    const steps = {
      ArrowLeft: at - 1, ArrowRight: at + 1, ArrowUp: at - 128, ArrowDown: at + 128,
      PageUp: at - 2048, PageDown: at + 2048,
      Home: event.ctrlKey ? 0 : row, End: event.ctrlKey ? end : row + 127,
    };
    if (event.altKey || event.metaKey) return;
    if (event.key in steps) {
      const target = steps[event.key];
      if (target >= 0 && target <= end) this.moveTo(target);
      else if (event.key === "PageUp" || event.key === "PageDown") this.moveTo(target < 0 ? at % 128 : 16256 + (at % 128));
    } else return;
    event.preventDefault();
  }

  moveTo(slot) {
    this.current = slot;
    this.drawCursor();
    this.onMove(slot);
  }
}
