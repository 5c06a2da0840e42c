"use strict";
(() => {
  const PAGE = 200;
  const order = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const count = (number) => number.toLocaleString("en");

  function keyOf(row, column, numeric) {
    const text = row.cells[column].textContent.trim();
    if (!numeric) return text;
    const number = parseFloat(text.replaceAll(",", ""));
    return Number.isNaN(number) ? null : number;
  }

  function compare(a, b) {
    return typeof a === "number" ? a - b : order.compare(a, b);
  }

  function sorted(rows, column, numeric, down) {
    const keyed = rows.map((row) => [keyOf(row, column, numeric), row]);
    keyed.sort(([a], [b]) => {
      if (a === null || b === null) return (a === null) - (b === null);
      return down ? compare(b, a) : compare(a, b);
    });
    return keyed.map(([, row]) => row);
  }

  // A table in its order, of which the first rows that fit are in the page.
  class View {
    constructor(table) {
      this.body = table.tBodies[0];
      this.rows = Array.from(this.body.rows);
      this.texts = new Map();
      this.words = [];
      this.most = PAGE;
      Array.from(table.tHead.rows[0].cells).forEach((header, column) => {
        const button = document.createElement("button");
        button.type = "button";
        button.append(...header.childNodes);
        button.addEventListener("click", () => this.sort(header, column));
        header.append(button);
      });
      this.more = document.createElement("button");
      this.more.type = "button";
      this.more.className = "more";
      this.more.addEventListener("click", () => {
        this.most += PAGE;
        this.draw();
      });
      table.after(this.more);
    }

    text(row) {
      if (!this.texts.has(row)) {
        const cells = Array.from(row.cells, (cell) => cell.textContent);
        this.texts.set(row, cells.join(" ").toLowerCase());
      }
      return this.texts.get(row);
    }

    sort(header, column) {
      const down = header.getAttribute("aria-sort") === "ascending";
      this.rows = sorted(this.rows, column, header.classList.contains("n"), down);
      for (const other of header.parentElement.cells) other.removeAttribute("aria-sort");
      header.setAttribute("aria-sort", down ? "descending" : "ascending");
      this.draw();
    }

    filter(text) {
      this.words = text.toLowerCase().split(/\s+/).filter(Boolean);
      this.most = PAGE;
      this.draw();
    }

    draw() {
      const fitting = this.words.length === 0 ? this.rows
        : this.rows.filter((row) => this.words.every((word) => this.text(row).includes(word)));
      this.body.replaceChildren(...fitting.slice(0, this.most));
      const left = Math.max(fitting.length - this.most, 0);
      this.more.hidden = left === 0;
      this.more.textContent = `Show ${count(Math.min(left, PAGE))} more`;
      const found = `${count(fitting.length)} of ${count(this.rows.length)}`;
      this.said = left === 0 ? `${found} shown` : `${found} found, the first ${count(this.most)} shown`;
      if (this.status) this.status.textContent = this.said;
    }
  }

  const views = new Map();
  for (const table of document.querySelectorAll("table")) views.set(table.id, new View(table));
  const box = document.getElementById("filter");
  const charges = views.get("charges");
  if (charges) {
    let waiting = 0;
    charges.status = document.getElementById("shown");
    box.addEventListener("input", () => {
      clearTimeout(waiting);
      waiting = setTimeout(() => charges.filter(box.value), 120);
    });
    box.closest("[hidden]").hidden = false;
  }
  for (const view of views.values()) view.draw();
  window.addEventListener("beforeprint", () => {
    for (const view of views.values()) {
      view.before = view.most;
      view.most = Infinity;
      view.draw();
    }
  });
  window.addEventListener("afterprint", () => {
    for (const view of views.values()) {
      view.most = view.before;
      view.draw();
    }
  });
})();
