"use strict";
// Without this script the page is complete, only longer: all targets, all rows, in one order.
for (const input of document.querySelectorAll(".search input")) {
  const rows = [...input.closest("details").querySelectorAll("tbody tr")];
  input.addEventListener("input", () => {
    const wanted = input.value.toLowerCase();
    for (const row of rows) row.hidden = !row.cells[1].textContent.toLowerCase().includes(wanted);
  });
}
const key = (row, at) => {
  const cell = row.cells[at];
  return "v" in cell.dataset ? parseFloat(cell.dataset.v) : cell.textContent;
};
const compare = (a, b) => {
  if (typeof a === "string") return a.localeCompare(b, undefined, { numeric: true });
  if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
  return a - b;
};
for (const table of document.querySelectorAll("table.sortable")) {
  [...table.tHead.rows[0].cells].forEach((head, at) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...head.childNodes);
    head.append(button);
    button.addEventListener("click", () => {
      const down = head.getAttribute("aria-sort") === "ascending";
      for (const other of table.tHead.rows[0].cells) other.removeAttribute("aria-sort");
      head.setAttribute("aria-sort", down ? "descending" : "ascending");
      const rows = [...table.tBodies[0].rows];
      rows.sort((a, b) => (down ? -1 : 1) * compare(key(a, at), key(b, at)));
      table.tBodies[0].append(...rows);
    });
  });
}
// Several targets: one at a time, the same everywhere on the page; on paper all of them.
const groups = [...document.querySelectorAll(".views")];
const show = (view) => {
  for (const part of document.querySelectorAll(".view")) {
    part.classList.toggle("away", part.dataset.view !== view);
  }
  for (const button of document.querySelectorAll(".pick button")) {
    button.setAttribute("aria-pressed", button.dataset.view === view);
  }
};
for (const group of groups) {
  const pick = document.createElement("div");
  pick.className = "pick";
  pick.setAttribute("role", "group");
  pick.setAttribute("aria-label", "Which is shown");
  for (const part of group.querySelectorAll(".view")) {
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.view = part.dataset.view;
    button.textContent = part.querySelector("h3").textContent;
    button.addEventListener("click", () => show(button.dataset.view));
    pick.append(button);
  }
  group.prepend(pick);
}
if (groups.length) {
  const parts = groups[0].querySelectorAll(".view");
  show(parts[Math.floor(parts.length / 2)].dataset.view);
}
window.addEventListener("beforeprint", () => {
  for (const fold of document.querySelectorAll("details")) fold.open = true;
});
