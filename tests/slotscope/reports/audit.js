// The basics of accessibility, as a function body that returns what is wrong, one line each.
const problems = [];
const all = (selector) => [...document.querySelectorAll(selector)];
const start = (element) => element.outerHTML.slice(0, 100);

// Names and labels (WCAG 4.1.2)
const referred = (element) => document.getElementById(element.getAttribute("aria-labelledby") ?? "")?.textContent;
const legend = (element) => element.closest("fieldset")?.querySelector("legend")?.textContent;
const name = (element) =>
  (element.getAttribute("aria-label") || referred(element) || element.labels?.[0]?.textContent
    || legend(element) || element.textContent || "").trim();
for (const element of all("input, button, select, a[href], [role=region], [role=application], nav, fieldset")) {
  if (!name(element)) problems.push(`no name: ${start(element)}`);
}
for (const element of all("input, select, textarea")) {
  if (!element.labels?.length) problems.push(`no label: ${start(element)}`);
}

// Structure (WCAG 1.3.1, 2.4.1, 3.1.1)
let level = 0;
for (const heading of all("h1, h2, h3, h4, h5, h6")) {
  const next = Number(heading.tagName[1]);
  if (next > level + 1) problems.push(`heading jumps from ${level} to ${next}: ${heading.textContent}`);
  level = next;
}
for (const tag of ["h1", "header", "nav", "main", "footer"]) {
  if (all(tag).length !== 1) problems.push(`not one ${tag}`);
}
if (document.documentElement.lang !== "en") problems.push("no language");
for (const table of all("table")) if (!table.caption) problems.push(`table without caption: ${start(table)}`);
for (const cell of all("th")) if (!cell.scope) problems.push(`heading of what: ${start(cell)}`);

// References that lead somewhere
const ids = all("[id]").map((element) => element.id);
for (const id of ids) if (ids.indexOf(id) !== ids.lastIndexOf(id)) problems.push(`id twice: ${id}`);
for (const attribute of ["aria-labelledby", "aria-describedby"]) {
  for (const element of all(`[${attribute}]`)) {
    for (const id of element.getAttribute(attribute).split(" ")) {
      if (!document.getElementById(id)) problems.push(`refers to nothing: ${id}`);
    }
  }
}
for (const link of all("a[href^='#']")) {
  if (!document.getElementById(link.hash.slice(1))) problems.push(`leads nowhere: ${link.hash}`);
}

// Contrast of text (WCAG 1.4.3)
const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
  .getContext("2d", { willReadFrequently: true });
const rgba = (colour) => {
  pen.clearRect(0, 0, 1, 1);
  pen.fillStyle = colour;
  pen.fillRect(0, 0, 1, 1);
  return [...pen.getImageData(0, 0, 1, 1).data];
};
const linear = (value) => (value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4);
const luminance = ([red, green, blue]) =>
  0.2126 * linear(red / 255) + 0.7152 * linear(green / 255) + 0.0722 * linear(blue / 255);
const behind = (element) => {
  for (let at = element; at; at = at.parentElement) {
    const colour = rgba(getComputedStyle(at).backgroundColor);
    if (colour[3] === 255) return colour;
  }
  return [255, 255, 255, 255];
};
const hasText = (element) => [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
const judged = new Set();
for (const element of all("body *")) {
  if (!element.checkVisibility() || !hasText(element) || element.closest(".quiet-heading, .choice:disabled")) continue;
  const front = getComputedStyle(element).color, back = behind(element), pair = `${front} on ${back}`;
  if (judged.has(pair)) continue;
  judged.add(pair);
  const [one, other] = [luminance(rgba(front)), luminance(back)];
  const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
  if (contrast < 4.5) problems.push(`contrast ${contrast.toFixed(2)}: ${pair}: ${start(element)}`);
}
if (judged.size < 5) problems.push("too few colours judged");

// Reflow (WCAG 1.4.10)
const width = document.documentElement.scrollWidth;
if (width > innerWidth) problems.push(`wider than the window: ${width}`);
return problems;
