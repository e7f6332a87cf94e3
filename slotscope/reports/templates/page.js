"use strict";

// What every page has: the choice of a theme, tables that sort, and controls that appear only where scripts run.
(() => {
  const root = document.documentElement;
  const remember = { // a file may have no storage
    read() { try { return localStorage.getItem("slotscope-theme"); } catch { return null; } },
    write(theme) { try { localStorage.setItem("slotscope-theme", theme); } catch { /* not remembered */ } },
  };

  for (const element of document.querySelectorAll("[data-script-only]")) element.hidden = false;

  function setTheme(theme) {
    root.dataset.theme = theme;
    document.dispatchEvent(new Event("themechange"));
  }
  const themes = [...document.querySelectorAll("input[name=theme]")];
  const remembered = themes.find((input) => input.value === remember.read());
  if (remembered) { remembered.checked = true; root.dataset.theme = remembered.value; }
  for (const input of themes) {
    input.addEventListener("change", () => { remember.write(input.value); setTheme(input.value); });
  }
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => setTheme(root.dataset.theme));

  const cellValue = (cell, kind) => {
    const given = cell.dataset.sort ?? cell.querySelector("data")?.value;
    if (kind === "number") return given === undefined ? -Infinity : Number(given);
    return given ?? cell.textContent.trim();
  };
  function sortBy(heading) {
    const kind = heading.dataset.kind, column = heading.cellIndex;
    const first = kind === "number" ? "descending" : "ascending";
    const other = kind === "number" ? "ascending" : "descending";
    const order = heading.getAttribute("aria-sort") === first ? other : first;
    const body = heading.closest("table").tBodies[0];
    const rows = [...body.rows].map((row) => [cellValue(row.cells[column], kind), row]);
    const sign = order === "ascending" ? 1 : -1;
    rows.sort(([a], [b]) => (a < b ? -sign : a > b ? sign : 0)); // stable, so equals keep their order
    body.append(...rows.map(([, row]) => row));
    for (const each of heading.parentElement.cells) if (each.ariaSort) each.setAttribute("aria-sort", "none");
    heading.setAttribute("aria-sort", order);
  }
  for (const button of document.querySelectorAll(".sortable thead button")) {
    button.addEventListener("click", () => sortBy(button.closest("th")));
  }
})();

// Figures as the page writes them elsewhere.
const figures = {
  count: (number) => String(number).replace(/\B(?=(\d{3})+$)/g, ","),
  size(number) {
    let value = number, unit = 0;
    while (value >= 999.5 && unit < 6) { value /= 1000; unit += 1; }
    if (unit === 0) return `${number} B`;
    return `${value.toFixed(value < 9.995 ? 2 : value < 99.95 ? 1 : 0)} ${["kB", "MB", "GB", "TB", "PB", "EB"][unit - 1]}`;
  },
  percent(part, whole) {
    if (!whole) return "—";
    const value = (100 * part) / whole;
    if (part === 0) return "0 %";
    if (value < 0.1) return "<0.1 %";
    if (value < 9.95) return `${value.toFixed(1)} %`;
    return value >= 99.5 && value < 100 ? ">99 %" : `${value.toFixed(0)} %`;
  },
};
