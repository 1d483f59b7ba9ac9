// Review of the terms of a document, with the mouse or with keys that move from row to row.
"use strict";
(() => {
  const form = document.getElementById("review"), asking = document.getElementById("document");
  const status = document.getElementById("status");

  if (asking) {
    asking.addEventListener("submit", () => {
      const button = asking.querySelector("button[type=submit]");
      button.textContent = "Reading the document …";
      status.textContent = "Reading the document. This can take half a minute.";
      setTimeout(() => { button.disabled = true; });
    });
    addEventListener("pageshow", () => {
      const button = asking.querySelector("button[type=submit]");
      button.disabled = false;
      button.textContent = "Find terms";
    });
  }
  if (!form) return;

  const rows = [...form.querySelectorAll("tbody tr")];
  const verdictOf = (row) => (row.querySelector(".verdict input:checked") || { value: "undecided" }).value;
  const shown = () => rows.filter((row) => !row.hidden);
  let unsaved = false, byPointer = false; // byPointer: the last input came from the mouse, not from a key

  function refresh() {
    const show = document.getElementById("show").value;
    const search = document.getElementById("search").value.trim().toLowerCase();
    const counts = { accepted: 0, rejected: 0, undecided: 0 };
    for (const row of rows) {
      const verdict = verdictOf(row);
      counts[verdict]++;
      row.className = verdict;
      const text = `${row.dataset.term} ${row.querySelector(".equivalent").value}`.toLowerCase();
      row.hidden = !(show === "all" || verdict === show) || !text.includes(search);
    }
    document.getElementById("tally").textContent =
      `${counts.accepted} accepted, ${counts.rejected} rejected, ${counts.undecided} undecided`;
    if (!rows.some((row) => row.tabIndex === 0 && !row.hidden)) {
      const first = shown()[0];
      if (first) first.tabIndex = 0;
    }
  }

  function decide(row, verdict) {
    row.querySelector(`.verdict input[value="${verdict}"]`).checked = true;
    unsaved = true;
    const at = shown().indexOf(row);
    refresh();
    if (row.hidden && document.activeElement === document.body) visit(shown()[Math.min(at, shown().length - 1)]);
  }

  function choose(row, button) {
    const field = row.querySelector(".equivalent"), spoken = button.dataset.spoken;
    field.value = button.dataset.text;
    if (spoken) field.lang = spoken; else field.removeAttribute("lang");
    row.querySelector("input[name^=spoken]").value = spoken;
    row.querySelector("input[name^=evidence]").value = button.dataset.evidence;
    row.querySelector("input[name^=score]").value = button.dataset.score;
    const evidence = row.querySelector(".found");
    if (evidence) quote(evidence, button.dataset.evidence, button.dataset.at);
    decide(row, "accepted");
  }

  // Shows a sentence with the phrase at "start-end" in bold; counts characters (code points), as the server does.
  function quote(place, sentence, at) {
    const characters = [...sentence], bold = document.createElement("b");
    const [start, end] = (at || "0-0").split("-").map(Number);
    bold.textContent = characters.slice(start, end).join("");
    place.replaceChildren(characters.slice(0, start).join(""), bold, characters.slice(end).join(""));
  }

  function visit(row) {
    if (!row) return;
    for (const each of rows) each.tabIndex = each === row ? 0 : -1;
    row.focus();
    row.scrollIntoView({ block: "nearest" });
  }

  form.addEventListener("click", (event) => {
    const button = event.target.closest(".choices button");
    if (!button) return;
    const row = button.closest("tr"), at = shown().indexOf(row);
    choose(row, button);
    visit(row.hidden ? shown()[Math.min(at, shown().length - 1)] : row); // focus the row, where keys work, and not the button
  });
  form.addEventListener("change", (event) => {
    const row = event.target.closest("tbody tr");
    if (row && event.target.matches(".equivalent")) {
      const button = [...row.querySelectorAll(".choices button")].find((each) => each.dataset.text === event.target.value.trim());
      row.querySelector("input[name^=score]").value = button ? button.dataset.score : ""; // a typed equivalent has no score
    }
    if (row && event.target.matches(".equivalent")) decide(row, event.target.value.trim() ? "accepted" : "undecided");
    else if (row) {
      const at = shown().indexOf(row);
      unsaved = true;
      refresh();
      if (byPointer) visit(row.hidden ? shown()[Math.min(at, shown().length - 1)] : row); // else ↓ would change the verdict
    }
    else if (event.target.id === "show") refresh();
  });
  document.getElementById("search").addEventListener("input", refresh);
  form.addEventListener("pointerdown", () => { byPointer = true; });
  form.addEventListener("keydown", (event) => {
    byPointer = false;
    const row = event.target.closest("tbody tr");
    if (event.key === "Enter" && event.target.matches("input")) { // else Enter would submit the form
      event.preventDefault();
      if (event.target.matches(".equivalent")) { decide(row, "accepted"); visit(row); }
      return;
    }
    if (!row || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") { visit(row); return; }
    if (event.target !== row) return;
    const list = shown(), at = list.indexOf(row);
    const button = /^[1-9]$/.test(event.key) ? row.querySelectorAll(".choices button")[event.key - 1] : null;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") visit(list[at + (event.key === "ArrowDown" ? 1 : -1)]);
    else if (event.key === "a") { decide(row, "accepted"); visit(list[at + 1]); }
    else if (event.key === "r") { decide(row, "rejected"); visit(list[at + 1]); }
    else if (event.key === "u") decide(row, "undecided");
    else if (event.key === "e") { row.querySelector(".equivalent").focus(); row.querySelector(".equivalent").select(); }
    else if (button) choose(row, button);
    else return;
    event.preventDefault();
  });
  // Saves the list as a file. A refusal is shown beside the review: a page with it would replace the review.
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const data = new FormData(form, event.submitter), notice = document.getElementById("notice");
    notice.hidden = true;
    try {
      const response = await fetch(form.getAttribute("action"), { method: "POST", body: data, headers: { Accept: "application/json" } });
      if (!response.ok) {
        const refusal = await response.json().catch(() => null); // a proxy answers something else
        throw new Error(refusal ? refusal.error.message : `the server answered ${response.status}`);
      }
      const link = document.createElement("a");
      link.href = URL.createObjectURL(await response.blob());
      link.download = `terms.${data.get("format")}`;
      link.click();
      unsaved = false;
    } catch (error) {
      const reason = error instanceof TypeError ? "the server does not answer" : error.message;
      notice.textContent = `Nothing was downloaded: ${reason}.`;
      notice.hidden = false;
    }
  });
  addEventListener("beforeunload", (event) => { if (unsaved) event.preventDefault(); });

  for (const row of rows) row.tabIndex = -1;
  refresh();
})();
