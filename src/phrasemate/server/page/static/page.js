// Makes immediate what works without it: every action is a link or a form of the page, fetched and put in place.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const $ = (id) => document.getElementById(id);
  const HISTORY = "phrasemate.history", KEPT = 40;

  // -- saying what happens

  const say = (text) => { if ($("status")) $("status").textContent = text; };

  function notice(text, again) {
    const box = $("notice");
    box.replaceChildren(document.createTextNode(text));
    const add = (label, act) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = label;
      button.addEventListener("click", () => { box.hidden = true; act(); });
      box.append(button);
    };
    if (again) add("Try again", again);
    add("Close", () => {});
    box.hidden = false;
  }

  // -- going somewhere

  const here = () => location.pathname + location.search;
  const running = new Map(); // what is on its way: one page, one sentence
  let shown = here();

  async function load(address, what = "page") {
    if (running.has(what)) running.get(what).abort();
    const mine = new AbortController();
    running.set(what, mine);
    let response;
    try {
      response = await fetch(address, { signal: mine.signal, headers: { Accept: "text/html" } });
      const body = await response.text();
      if (mine !== running.get(what)) return null;
      if (!(response.headers.get("content-type") || "").startsWith("text/html")) {
        let reason = "";
        try { reason = JSON.parse(body).error.message; } catch { /* no JSON either */ }
        notice(reason || `The server answered ${response.status}.`, () => location.assign(address));
        return null;
      }
      return new DOMParser().parseFromString(body, "text/html");
    } catch (error) {
      if (error.name === "AbortError") return null;
      notice("The server does not answer. Is “phrasemate serve” still running?", () => go(what === "page" ? address : here()));
      say("The server does not answer.");
      return null;
    } finally {
      if (mine === running.get(what)) {
        running.delete(what);
        if (what === "page") busy(false);
      }
    }
  }

  const busy = (on) => { if ($("answer")) $("answer").setAttribute("aria-busy", String(on)); };

  // Shows another address of the page. how: "push" a new entry of the browser's history, "replace" this one, "none".
  async function go(address, how = "push", focus = "") {
    const url = new URL(address, location.href);
    busy(true);
    const made = await load(url);
    if (!made) return;
    const main = made.getElementById("main"), refused = made.getElementById("refused");
    if (!made.getElementById("ask")) {
      const reason = refused ? refused.textContent.replace(/\s+/g, " ").trim() : "The server sent something else.";
      notice(reason, () => go(address, how, focus));
      return;
    }
    $("notice").hidden = true;
    const old = $("reading"), fresh = made.getElementById("reading");
    const indexes = (form) => [...form.querySelectorAll("input[name=in]")].map((box) => box.value).join("\n");
    const alike = indexes($("ask")) === indexes(made.getElementById("ask")); // or the server serves others now
    const same = alike && old && fresh && old.dataset.text === fresh.dataset.text;
    if (how === "push") history.pushState(null, "", url);
    if (how === "replace") history.replaceState(null, "", url);
    shown = here();
    document.title = made.title;
    if (same) {
      $("answer").replaceWith(made.getElementById("answer"));
      $("pick").replaceWith(made.getElementById("pick"));
      follow($("ask"), made.getElementById("ask"));
      mark(new URL(url).searchParams.get("at"));
    } else {
      const typed = how === "push" && document.activeElement === $("q");
      $("main").replaceWith(main);
      enhance();
      if (typed && !fresh) $("q").focus();
    }
    enhanceAnswer();
    report(made);
    if (focus === "phrase") focusPhrase(current() || phrases()[0]);
    if (focus && $(focus)) { $(focus).scrollIntoView({ block: "nearest" }); }
  }

  // Takes over what another form has chosen, but for the text, which may have the focus.
  function follow(form, other) {
    for (const old of form.querySelectorAll("input[type=hidden]")) old.remove();
    form.append(...other.querySelectorAll("input[type=hidden]"));
    for (const box of form.querySelectorAll("input[name=in]")) {
      box.checked = other.querySelector(`input[name=in][value="${CSS.escape(box.value)}"]`).checked;
    }
  }

  // Says what came, and keeps it in the history.
  function report() {
    const refused = $("refused");
    if (refused) { say(refused.textContent.trim()); return; }
    const asked = $("asked");
    if (!asked) {
      if (phrases().length) say(`${phrases().length} phrases. Choose one with the arrow keys, then press Enter.`);
      return;
    }
    const found = [...document.querySelectorAll(".candidate")];
    const low = document.querySelector(".sure.low strong");
    const best = found[0] ? ` The closest: ${found[0].dataset.text}.` : "";
    say(`${found.length} candidates for ${asked.textContent}. ${low ? low.textContent : ""}${best}`);
    remember(asked.textContent, found[0] ? found[0].dataset.text : "");
  }

  const addressOf = (form, submitter) => {
    const data = new FormData(form, submitter || undefined);
    const kept = new URLSearchParams();
    for (const [name, value] of data) if (value !== "") kept.append(name, value);
    if (kept.get("sort") === "score") kept.delete("sort");
    return `${form.getAttribute("action")}?${kept}`;
  };

  // -- the text and its phrases

  const phrases = () => [...document.querySelectorAll("#text .phrase")];
  const current = () => document.querySelector("#text .phrase[aria-current]");

  function focusPhrase(phrase) {
    if (!phrase) return;
    for (const each of phrases()) each.tabIndex = each === phrase ? 0 : -1;
    phrase.focus();
  }

  // One phrase is a stop of the Tab key, from which the arrow keys go on.
  function reachable() {
    const stop = document.activeElement.closest("#text .phrase") || current() || phrases()[0];
    for (const each of phrases()) each.tabIndex = each === stop ? 0 : -1;
    if (!stop && $("text")) $("text").tabIndex = 0;
  }

  // Characters (code points) before a place in the text, which is what "at" counts.
  function charactersBefore(node, offset) {
    const range = document.createRange();
    range.selectNodeContents($("text"));
    range.setEnd(node, offset);
    return [...range.toString()].length;
  }

  function selected() {
    const text = $("text"), chosen = getSelection();
    if (!text || !chosen || chosen.isCollapsed || !chosen.rangeCount) return null;
    const range = chosen.getRangeAt(0);
    if (!text.contains(range.startContainer) || !text.contains(range.endContainer)) return null;
    return trimmed(charactersBefore(range.startContainer, range.startOffset), [...range.toString()]);
  }

  function trimmed(start, characters) {
    let end = characters.length, from = 0;
    while (from < end && /\s/u.test(characters[from])) from++;
    while (end > from && /\s/u.test(characters[end - 1])) end--;
    const words = characters.slice(from, end).join("");
    return /[\p{L}\p{N}]/u.test(words) ? { at: `${start + from}-${start + end}`, words } : null;
  }

  const pick = (at, focus = "") => {
    const address = new URL(addressOf($("pick")), location.href);
    address.searchParams.set("at", at);
    return go(address, "push", focus);
  };

  // Shows which phrase is asked about, one of those underlined or any other stretch.
  function mark(at) {
    if (typeof CSS !== "undefined" && CSS.highlights) CSS.highlights.delete("chosen");
    let found = false;
    for (const phrase of phrases()) {
      const own = phrase.dataset.at === at;
      found = found || own;
      if (own) phrase.setAttribute("aria-current", "true");
      else phrase.removeAttribute("aria-current");
    }
    if (!found && at && typeof Highlight !== "undefined") {
      const range = rangeOf(...at.split("-").map(Number));
      if (range) CSS.highlights.set("chosen", new Highlight(range));
    }
  }

  function rangeOf(start, end) {
    const walker = document.createTreeWalker($("text"), NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    let before = 0, begun = false;
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const characters = [...node.data];
      const inside = (at) => characters.slice(0, at - before).join("").length;
      if (!begun && start < before + characters.length) { range.setStart(node, inside(start)); begun = true; }
      if (begun && end <= before + characters.length) { range.setEnd(node, inside(end)); return range; }
      before += characters.length;
    }
    return null;
  }

  function enhanceText() {
    const text = $("text");
    if (!text) return;
    for (const button of phrases()) { // text inside buttons cannot be selected with the mouse
      const phrase = document.createElement("span");
      phrase.className = "phrase";
      phrase.setAttribute("role", "button");
      phrase.tabIndex = -1;
      phrase.dataset.at = button.value;
      if (button.hasAttribute("aria-current")) phrase.setAttribute("aria-current", "true");
      phrase.textContent = button.textContent;
      button.replaceWith(phrase);
    }
    reachable();
    text.addEventListener("click", (event) => {
      const phrase = event.target.closest(".phrase");
      if (!phrase || selected()) return;
      focusPhrase(phrase);
      pick(phrase.dataset.at);
    });
    text.addEventListener("pointerdown", () => { // where the focus can go, Chromium lets no selection begin
      if (document.activeElement.matches("#text .phrase")) document.activeElement.blur();
      for (const phrase of phrases()) phrase.removeAttribute("tabindex");
      addEventListener("pointerup", () => setTimeout(reachable), { once: true });
    });
    text.addEventListener("keydown", textKey);
    $("find").addEventListener("click", () => { const chosen = selected(); if (chosen) pick(chosen.at); });
    $("find").addEventListener("mousedown", (event) => event.preventDefault()); // keeps the selection
  }

  // A mark between two words is a word to some browsers: there it takes another step, back from which leads nowhere.
  function extendByWord(chosen, way) {
    const before = chosen.toString();
    for (let steps = 1; steps <= 4 && chosen.toString() === before; steps++) {
      for (let step = 0; step < steps; step++) chosen.modify("extend", way, "word");
      withoutPunctuation(chosen, way === "right" ? "left" : "right");
    }
  }

  // Where a word ends differs between browsers: some take along the comma behind it, or the space.
  function withoutPunctuation(chosen, back) {
    for (let turns = 0; turns < 9 && !chosen.isCollapsed; turns++) {
      const { focusNode, focusOffset } = chosen, words = chosen.toString();
      const range = chosen.getRangeAt(0);
      const atEnd = range.endContainer === focusNode && range.endOffset === focusOffset;
      if (/[\p{L}\p{M}\p{N}]/u.test([...words].at(atEnd ? -1 : 0) || "a")) return;
      chosen.modify("extend", back, "character");
    }
  }

  function textKey(event) {
    const list = phrases(), at = list.indexOf(document.activeElement);
    const rtl = $("text").dir === "rtl";
    const step = { ArrowRight: rtl ? -1 : 1, ArrowLeft: rtl ? 1 : -1 }[event.key];
    if (step && event.shiftKey) {
      const chosen = getSelection();
      if (!selected() && at >= 0) chosen.setBaseAndExtent(list[at], 0, list[at], list[at].childNodes.length);
      extendByWord(chosen, event.key === "ArrowRight" ? "right" : "left");
      event.preventDefault();
    } else if (step && list.length && !event.ctrlKey && !event.altKey && !event.metaKey) {
      getSelection().removeAllRanges();
      focusPhrase(list[Math.min(Math.max(at + step, 0), list.length - 1)]);
      event.preventDefault();
    } else if (event.key === "Home" || event.key === "End") {
      focusPhrase(event.key === "Home" ? list[0] : list[list.length - 1]);
      event.preventDefault();
    } else if (event.key === "Enter" || (event.key === " " && at >= 0)) {
      const chosen = selected();
      event.preventDefault();
      if (chosen) pick(chosen.at);
      else if (at >= 0) pick(list[at].dataset.at);
    } else if (event.key === "ArrowDown" && stops().length) {
      event.preventDefault();
      visit(stops()[0]);
    }
  }

  document.addEventListener("selectionchange", () => {
    const find = $("find");
    if (!find) return;
    const chosen = selected();
    find.disabled = !chosen;
    const words = chosen ? chosen.words.replace(/\s+/gu, " ") : "";
    find.textContent = chosen ? `Find “${words.length > 40 ? words.slice(0, 39) + "…" : words}”` : "Find selection";
  });

  // -- the form

  function enhanceForm() {
    const form = $("ask"), box = $("q");
    if (!form) return;
    const count = () => {
      const size = [...box.value].length, most = Number(box.dataset.most);
      const shown = $("q-count");
      shown.textContent = size > most * 0.8 ? `${size.toLocaleString("en")} of ${most.toLocaleString("en")} characters` : "";
      shown.classList.toggle("over", size > most);
    };
    box.addEventListener("input", count);
    count();
    box.addEventListener("paste", () => setTimeout(() => { if (box.value.trim()) ask(); })); // at once
    box.addEventListener("keydown", (event) => {
      if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      const start = box.selectionStart, end = box.selectionEnd;
      const chosen = start < end ? trimmed([...box.value.slice(0, start)].length, [...box.value.slice(start, end)]) : null;
      ask(chosen ? chosen.at : "");
    });
    form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
    for (const each of form.querySelectorAll("input[name=in]")) {
      each.addEventListener("change", () => {
        const at = new URL(location.href).searchParams.get("at");
        const kept = $("reading") && $("reading").dataset.text === box.value;
        if (box.value.trim()) ask(kept && at ? at : "");
      });
    }
  }

  function ask(at = "") {
    const box = $("q"), size = [...box.value].length, most = Number(box.dataset.most);
    if (size > most) {
      notice(`The text has ${size.toLocaleString("en")} characters; ${most.toLocaleString("en")} are the most at a time. Shorten it, or paste it in parts.`);
      say("The text is too long.");
      return;
    }
    const address = new URL(addressOf($("ask")), location.href);
    if (at) address.searchParams.set("at", at);
    go(address, "push", "phrase");
  }

  // -- the answer

  const stops = () => [...document.querySelectorAll("#answer .candidate, #answer .line")];

  function visit(stop) {
    if (!stop) return;
    stop.focus();
    stop.scrollIntoView({ block: "nearest" });
  }

  function enhanceAnswer() {
    const stopped = stops();
    stopped.forEach((stop, at) => { stop.tabIndex = at ? -1 : 0; });
    for (const inner of document.querySelectorAll("#answer .line .copy, #answer .line .more")) inner.tabIndex = -1;
    const sift = $("sift");
    if (sift) {
      sift.addEventListener("submit", (event) => { event.preventDefault(); go(addressOf(sift)); });
      sift.addEventListener("change", () => go(addressOf(sift)));
    }
    const others = document.querySelector(".others");
    if (others) {
      others.addEventListener("submit", (event) => {
        event.preventDefault();
        go(addressOf(others, event.submitter), "push", "phrase");
      });
    }
  }

  document.addEventListener("click", (event) => {
    const copying = event.target.closest(".copy");
    if (copying) { copy(copying.dataset.copy, copying); return; }
    const plain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
    const more = event.target.closest(".line .more");
    if (more && plain) { event.preventDefault(); unfold(more.closest(".line")); return; }
    const kept = event.target.closest("a[data-keep], #history a");
    if (kept && plain) { event.preventDefault(); $("history").open = false; go(kept.href); return; }
    const menu = $("history");
    if (menu && menu.open && !menu.contains(event.target)) menu.open = false;
  });

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && $("history") && $("history").open) { $("history").open = false; return; }
    if (event.defaultPrevented) return;
    const focused = document.activeElement;
    if (event.key === "Enter" && selected() && !focused.closest("a, button, input, select, summary, textarea, .line")) {
      event.preventDefault();
      pick(selected().at, "phrase");
      return;
    }
    const stop = focused && focused.closest("#answer .line, #answer .candidate");
    if (!stop || event.ctrlKey || event.metaKey || event.altKey) return;
    const list = stops(), at = list.indexOf(stop);
    if (event.key === "ArrowDown") { event.preventDefault(); visit(list[at + 1]); }
    else if (event.key === "ArrowUp") { event.preventDefault(); at ? visit(list[at - 1]) : focusPhrase(current() || phrases()[0]); }
    else if (event.key === "c") copy(stop.dataset.copy || stop.dataset.text, stop.querySelector(".copy"));
    else if (event.key === "Enter" && focused === stop && stop.matches(".line")) unfold(stop);
    else if (event.key === "Escape") focusPhrase(current() || phrases()[0]);
  });

  async function copy(text, button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // not allowed, or not a secure address: the old way
      const area = document.createElement("textarea"), focused = document.activeElement;
      area.value = text;
      area.className = "sr";
      document.body.append(area);
      area.select();
      done = document.execCommand("copy");
      area.remove();
      if (focused) focused.focus();
    }
    if (!done) { notice("The browser does not let this page copy. Select the text and copy it yourself."); return; }
    say(`Copied: ${text}`);
    if (!button) return;
    button.textContent = "Copied";
    button.classList.add("done");
    setTimeout(() => { button.textContent = "Copy"; button.classList.remove("done"); }, 1500);
  }

  async function unfold(line) {
    const more = line.querySelector(".more"), next = line.nextElementSibling;
    if (next && next.matches(".whole-row")) {
      next.remove();
      line.classList.remove("open");
      more.setAttribute("aria-expanded", "false");
      return;
    }
    const made = await load(more.href, "sentence");
    const found = made && (made.getElementById("sentence") || made.getElementById("refused"));
    if (!found) return;
    const row = document.createElement("tr"), cell = document.createElement("td");
    row.className = "whole-row";
    cell.colSpan = 5;
    cell.append(found);
    row.append(cell);
    line.after(row);
    line.classList.add("open");
    more.setAttribute("aria-expanded", "true");
    say(found.textContent.replace(/\s+/g, " ").trim());
  }

  // -- history, in this browser only

  function remembered() {
    try { return JSON.parse(localStorage.getItem(HISTORY)) || []; } catch { return []; }
  }

  function remember(phrase, best) {
    const address = here();
    const rest = remembered().filter((each) => each.address !== address);
    try {
      localStorage.setItem(HISTORY, JSON.stringify([{ phrase, best, address }, ...rest].slice(0, KEPT)));
    } catch { /* full, or forbidden: then there is no history */ }
    showHistory();
  }

  function showHistory() {
    const menu = $("history");
    if (!menu) return;
    menu.hidden = false;
    const kept = remembered();
    $("history-none").hidden = kept.length > 0;
    $("history-clear").hidden = !kept.length;
    $("history-list").replaceChildren(...kept.map(({ phrase, best, address }) => {
      const item = document.createElement("li"), link = document.createElement("a"), small = document.createElement("small");
      link.href = String(address).startsWith("/?") ? String(address) : "/";
      link.textContent = phrase;
      small.textContent = best;
      link.append(small);
      item.append(link);
      return item;
    }));
  }

  // -- beginning

  function enhance() {
    enhanceText();
    enhanceForm();
  }

  if ($("ask")) {
    enhance();
    enhanceAnswer();
    showHistory();
    $("history-clear").addEventListener("click", () => { localStorage.removeItem(HISTORY); showHistory(); });
    if ($("asked")) remember($("asked").textContent, (document.querySelector(".candidate") || { dataset: {} }).dataset.text || "");
    addEventListener("popstate", () => { // also comes when a skip link is followed
      if (shown !== here()) go(location.href, "none");
    });
  }
})();
