// Finds names of the table in names.js: those that begin with the words typed,
// then those that hold them.
"use strict";
const box = document.getElementById("search");
const list = document.getElementById("found");

function findNames(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  if (words.length === 0) return [];
  const rank = ([name, , about]) => {
    const low = name.toLowerCase();
    if (low === words[0] || low === "ls_" + words[0]) return 0;
    if (low.startsWith(words[0]) || low.startsWith("ls_" + words[0])) return 1;
    if (words.every((word) => low.includes(word))) return 2;
    const all = low + " " + about.toLowerCase();
    return words.every((word) => all.includes(word)) ? 3 : 4;
  };
  return names.map((row) => [rank(row), row]).filter(([r]) => r < 4)
      .sort((a, b) => a[0] - b[0] || a[1][0].length - b[1][0].length)
      .slice(0, 60).map(([, row]) => row);
}

function showNames() {
  list.innerHTML = findNames(box.value).map(([name, page, about]) =>
      `<li><a href="${page}#${name}">${name}</a> <small>${about}</small></li>`)
      .join("");
}

box.addEventListener("input", showNames);
box.addEventListener("keydown", (event) => {
  const first = list.querySelector("a");
  if (event.key === "Enter" && first) location.href = first.href;
  if (event.key === "Escape") { box.value = ""; showNames(); }
});
list.addEventListener("click", () => { box.value = ""; showNames(); });
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || document.activeElement === box) return;
  event.preventDefault();
  box.focus();
});
