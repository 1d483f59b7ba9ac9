// Speeds up a page that also works without scripts: fetches its links and forms, and replaces the parts that change.
"use strict";
(() => {
  const root = document.documentElement;
  root.classList.add("scripted");
  const $ = (id) => document.getElementById(id);
  const HISTORY = "phrasemate.history", KEPT = 40;

  // -- messages to the user

  const say = (text) => { if ($("status")) $("status").textContent = text; };

  const sentence = (message) => `${message[0].toUpperCase()}${message.slice(1)}.`;

  function notice(text, label = "", act = null, milliseconds = 0) {
    const box = $("notice");
    box.replaceChildren(document.createTextNode(text));
    const add = (name, action) => {
      const button = document.createElement("button");
      button.type = "button";
      button.textContent = name;
      button.addEventListener("click", () => { box.hidden = true; action(); });
      box.append(button);
    };
    if (act) add(label, act);
    add("Close", () => {});
    box.hidden = false;
    clearTimeout(hiding);
    if (milliseconds) hiding = setTimeout(() => { box.hidden = true; }, milliseconds);
  }
  let hiding = 0;

  // -- navigation

  const here = () => location.pathname + location.search;
  const running = new Map(); // requests in flight: at most one for a page and one for a sentence
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
        try { reason = sentence(JSON.parse(body).error.message); } catch { /* neither HTML nor JSON */ }
        notice(reason || `The server answered ${response.status}.`, "Try again", () => location.assign(address));
        return null;
      }
      return new DOMParser().parseFromString(body, "text/html");
    } catch (error) {
      if (error.name === "AbortError") return null;
      notice("The server does not answer. Is “phrasemate serve” still running?", "Try again", () => go(what === "page" ? address : here()));
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

  // Shows another address of the page. how: "push" adds an entry to the browser's history, "replace" replaces the
  // current entry, "none" leaves the history alone. focus "phrase" moves the focus to the current phrase.
  async function go(address, how = "push", focus = "") {
    const url = new URL(address, location.href);
    busy(true);
    const made = await load(url);
    if (!made) return;
    const main = made.getElementById("main"), refused = made.getElementById("refused");
    if (!made.getElementById("ask")) {
      const reason = refused ? refused.textContent.replace(/\s+/g, " ").trim() : "The server sent something else.";
      notice(reason, "Try again", () => go(address, how, focus));
      return;
    }
    $("notice").hidden = true;
    const old = $("reading"), fresh = made.getElementById("reading");
    const indexes = (form) => [...form.querySelectorAll("input[name=in]")].map((box) => box.value).join("\n");
    const alike = indexes($("ask")) === indexes(made.getElementById("ask")); // false if the server now serves other indexes
    const same = alike && old && fresh && old.dataset.text === fresh.dataset.text;
    if (how === "push") history.pushState(null, "", url);
    if (how === "replace") history.replaceState(null, "", url);
    shown = here();
    document.title = made.title;
    if (same) {
      edit(false);
      $("answer").replaceWith(made.getElementById("answer"));
      $("pick").replaceWith(made.getElementById("pick"));
      follow($("ask"), made.getElementById("ask"));
      mark(new URL(url).searchParams.get("at"));
    } else {
      const typed = how !== "none" && document.activeElement === $("q");
      const draft = how === "replace" ? $("q").value : ""; // typed while the page was loading
      $("main").replaceWith(main);
      if (draft) $("q").value = draft;
      enhance();
      if (typed && !fresh) $("q").focus();
    }
    enhanceAnswer();
    keepChoices();
    report(made);
    showCurrent();
    if (focus === "phrase") focusPhrase(current() || phrases()[0]);
  }

  // Copies the choices of another form, but not its text: the user may be typing.
  function follow(form, other) {
    for (const old of form.querySelectorAll("input[type=hidden]")) old.remove();
    form.append(...other.querySelectorAll("input[type=hidden]"));
    for (const box of form.querySelectorAll("input[name=in]")) {
      box.checked = other.querySelector(`input[name=in][value="${CSS.escape(box.value)}"]`).checked;
    }
  }

  // Announces the new content to screen readers, and adds the query to the history.
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

  // Folds the text to a few lines if there is an answer, and scrolls it to the current phrase.
  function showCurrent() {
    const text = $("text"), phrase = current();
    if (!text) return;
    text.classList.toggle("folded", $("asked") !== null);
    if (phrase) text.scrollTop += phrase.getBoundingClientRect().top - text.getBoundingClientRect().top - text.clientHeight / 2;
  }

  // Shows the text as an editable field (on), or with its phrases.
  function edit(on) {
    if (!$("ask").matches(".read")) return;
    $("ask").classList.toggle("editing", on);
    if (on) { $("q").focus(); $("q").select(); }
  }

  // Makes exactly one phrase reachable with the Tab key; the arrow keys lead from it to the others.
  function reachable() {
    const stop = document.activeElement.closest("#text .phrase") || current() || phrases()[0];
    for (const each of phrases()) each.tabIndex = each === stop ? 0 : -1;
    if (!stop && $("text")) $("text").tabIndex = 0;
  }

  // Counts the characters (code points) before a place in the text, as "at" in addresses does.
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

  // Marks the phrase of the query: an underlined phrase, or a highlight over any other span.
  function mark(at) {
    if (typeof CSS !== "undefined" && CSS.highlights) CSS.highlights.delete("chosen");
    let found = false;
    for (const phrase of phrases()) {
      const own = phrase.dataset.at === at;
      found = found || own;
      if (own) phrase.setAttribute("aria-current", "true");
      else phrase.removeAttribute("aria-current");
    }
    if (!found && at && !at.includes(".") && typeof Highlight !== "undefined") {
      const range = rangeOf(...at.split("-").map(Number));
      if (range) CSS.highlights.set("chosen", new Highlight(range));
    }
  }

  function rangeOf(start, end) {
    const walker = document.createTreeWalker($("text"), NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    let before = 0, inRange = false;
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      const characters = [...node.data];
      const inside = (at) => characters.slice(0, at - before).join("").length;
      if (!inRange && start < before + characters.length) { range.setStart(node, inside(start)); inRange = true; }
      if (inRange && end <= before + characters.length) { range.setEnd(node, inside(end)); return range; }
      before += characters.length;
    }
    return null;
  }

  function enhanceText() {
    const text = $("text");
    if (!text) return;
    for (const button of phrases()) { // text inside buttons cannot be selected with the mouse
      const phrase = document.createElement("span");
      phrase.className = button.className;
      phrase.title = button.title;
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
    text.addEventListener("pointerdown", () => { // in Chromium, no selection can start in a focusable element
      if (document.activeElement.matches("#text .phrase")) document.activeElement.blur();
      for (const phrase of phrases()) phrase.removeAttribute("tabindex");
      addEventListener("pointerup", () => setTimeout(reachable), { once: true });
    });
    text.addEventListener("keydown", textKey);
    $("edit").addEventListener("click", () => edit(true));
    $("find").addEventListener("click", () => { const chosen = selected(); if (chosen) pick(chosen.at); });
    $("find").addEventListener("mousedown", (event) => event.preventDefault()); // keeps the selection
  }

  // Moves the end of a selection by one word, ahead or back; punctuation marks are not words.
  function extendByWord(chosen, ahead) {
    const content = $("text").textContent, words = [];
    for (const { segment, index, isWordLike } of new Intl.Segmenter(undefined, { granularity: "word" }).segment(content)) {
      if (isWordLike) words.push([index, index + segment.length]);
    }
    const offset = (node, at) => {
      const range = document.createRange();
      range.selectNodeContents($("text"));
      range.setEnd(node, at);
      return range.toString().length;
    };
    const anchor = offset(chosen.anchorNode, chosen.anchorOffset), end = offset(chosen.focusNode, chosen.focusOffset);
    const side = (ahead ? end >= anchor : end > anchor) ? 1 : 0;
    const edges = words.map((word) => word[side]);
    const next = ahead ? edges.find((edge) => edge > end) : edges.findLast((edge) => edge < end);
    if (next === undefined) return;
    const crossed = (next - anchor) * (end - anchor) < 0;
    chosen.extend(...placeOf(crossed ? anchor : next));
  }

  function placeOf(at) {
    const walker = document.createTreeWalker($("text"), NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (at <= node.data.length) return [node, at];
      at -= node.data.length;
    }
    return [$("text"), $("text").childNodes.length];
  }

  function textKey(event) {
    const list = phrases(), at = list.indexOf(document.activeElement);
    const rtl = $("text").dir === "rtl";
    const step = { ArrowRight: rtl ? -1 : 1, ArrowLeft: rtl ? 1 : -1 }[event.key];
    if (step && event.shiftKey) {
      const chosen = getSelection();
      if (!selected() && at >= 0) chosen.setBaseAndExtent(list[at], 0, list[at], list[at].childNodes.length);
      if (chosen.rangeCount) extendByWord(chosen, step > 0);
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
      if (event.key === "Escape" && form.matches(".editing")) {
        event.preventDefault();
        edit(false);
        focusPhrase(current() || phrases()[0]);
      }
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
      notice(`The text has ${size.toLocaleString("en")} characters; ${most.toLocaleString("en")} is the limit. Shorten it, or paste it in parts.`);
      say("The text is too long.");
      return;
    }
    const address = new URL(addressOf($("ask")), location.href);
    if (at) address.searchParams.set("at", at);
    go(address, "push", "phrase");
  }

  // -- the answer

  const candidates = () => [...document.querySelectorAll("#answer .candidate")];
  const backToText = () => focusPhrase(current() || phrases()[0]);

  function visit(stop) {
    if (!stop) return;
    for (const each of candidates()) each.tabIndex = -1;
    stop.closest(".candidate").tabIndex = 0;
    stop.focus();
    stop.scrollIntoView({ block: "nearest" });
  }

  function enhanceAnswer() {
    candidates().forEach((candidate, at) => { candidate.tabIndex = at ? -1 : 0; });
    for (const line of document.querySelectorAll("#answer .line")) line.tabIndex = -1;
    for (const inner of document.querySelectorAll("#answer .line :is(.copy, .more)")) inner.tabIndex = -1;
    const sift = $("sift");
    if (sift) {
      const from = sift.querySelector("input[name=from]");
      from.value = from.value || setting("from");
      from.addEventListener("input", () => setting("from", from.value));
      sift.addEventListener("submit", (event) => { event.preventDefault(); go(addressOf(sift)); });
      sift.addEventListener("change", () => go(addressOf(sift)));
    }
    const typed = $("own-equivalent");
    if (typed) {
      typed.addEventListener("submit", (event) => {
        event.preventDefault();
        typed.dataset.text = typed.elements.target.value.trim();
        if (typed.dataset.text) take(typed);
      });
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
    const given = event.target.closest(".given");
    if (given) { take(given); return; }
    const taking = event.target.closest(".use, .wording");
    if (taking && getSelection().isCollapsed) { take(taking.closest(".candidate")); return; }
    const plain = !event.ctrlKey && !event.metaKey && !event.shiftKey && event.button === 0;
    const more = event.target.closest(".line .more");
    if (more && plain) { event.preventDefault(); unfold(more.closest(".line")); return; }
    const line = event.target.closest(".lookup .line");
    if (line && plain && getSelection().isCollapsed) { line.classList.toggle("open"); return; }
    const kept = event.target.closest("a[data-keep], #history a");
    if (kept && plain) { event.preventDefault(); $("history").open = false; go(kept.href); return; }
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  });

  const FIELDS = "input, select, textarea, summary, dialog, [contenteditable]";

  document.addEventListener("keydown", (event) => {
    const open = document.querySelector("details.menu[open]");
    if (event.key === "Escape" && open) { open.open = false; open.querySelector("summary").focus(); return; }
    if (event.defaultPrevented) return;
    const focused = document.activeElement, field = focused.closest(FIELDS);
    const chosen = selected();
    if (event.key === "Enter" && chosen && !field && !focused.closest("a, button, .line")) {
      event.preventDefault();
      pick(chosen.at, "phrase");
      return;
    }
    if (field || event.altKey || event.metaKey) return;
    const stop = focused.closest("#answer .line, #answer .candidate");
    if (event.ctrlKey) {
      if (event.key === "c" && stop && getSelection().isCollapsed) { event.preventDefault(); copyStop(stop); }
      return;
    }
    if (stop ? answerKey(event, stop, focused) : false) event.preventDefault();
    else if (/^[1-9]$/.test(event.key) && take(candidatesBeside(stop)[event.key - 1])) event.preventDefault();
    else if (event.key === "ArrowDown" && !stop && candidates().length && !focused.closest("a, button:not(.phrase)")) {
      event.preventDefault();
      visit(candidates()[0]);
    } else if (event.key === "?") { event.preventDefault(); $("keys").showModal(); }
    else if (event.key === "n" && $("own-equivalent")) { event.preventDefault(); $("own-equivalent").elements.target.focus(); }
    else if (event.key === "e" && $("reading")) { event.preventDefault(); edit(true); }
  });

  // Candidates of the column that has the focus, else of the first column.
  function candidatesBeside(stop) {
    const panel = (stop || document.querySelector("#answer .candidate") || document.body).closest(".panel");
    return panel ? [...panel.querySelectorAll(".candidate")] : [];
  }

  // Handles a key in the answers; returns false for a key that does nothing there.
  function answerKey(event, stop, focused) {
    const candidate = stop.closest(".candidate"), list = candidates(), at = list.indexOf(candidate);
    const lines = [...candidate.querySelectorAll(".line")], line = lines.indexOf(stop);
    const down = event.key === "ArrowDown";
    if (down || event.key === "ArrowUp") {
      const next = line < 0 ? undefined : lines[line + (down ? 1 : -1)];
      if (next) visit(next);
      else if (!down && line === 0) visit(candidate);
      else if (!down && at === 0) backToText();
      else visit(list[at + (down ? 1 : -1)]);
    } else if (event.key === "ArrowRight" && line < 0) visit(lines[0]);
    else if (event.key === "ArrowLeft" && line >= 0) visit(candidate);
    else if (event.key === "c") copyStop(stop);
    else if (event.key === "Enter" && focused === stop) stop.matches(".line") ? unfold(stop) : take(candidate);
    else if (event.key === "Escape") backToText();
    else return false;
    return true;
  }

  const copyStop = (stop) => copy(stop.dataset.copy || stop.dataset.text, stop.querySelector(".copy"));

  // Copies the candidate that the user has chosen, and adds it to the glossary.
  function take(candidate) {
    if (!candidate) return false;
    copy(candidate.dataset.text, candidate.querySelector(".use, .copy"));
    if (!root.hasAttribute("data-read-only")) keep(candidate);
    return true;
  }

  async function keep(candidate) {
    const from = document.querySelector("#sift input[name=from]");
    const answer = await post({
      action: "add", source: $("asked").textContent, context: $("asked").dataset.context, source_language: from.value || from.dataset.guess,
      target: candidate.dataset.text, target_language: candidate.dataset.language,
      example: candidate.dataset.example || "", origin: candidate.dataset.origin || "",
    });
    if (!answer) return;
    candidate.classList.add("chosen");
    const undo = () => takeBack(candidate, answer.id);
    if (!answer.added) notice("Copied. It is in your glossary already.", "", null, 4000);
    else if (answer.conflicts.length) {
      notice(`Kept. Your glossary also has “${answer.conflicts.join("”, “")}” for this term.`, "Undo", undo);
    } else notice("Copied, and kept in your glossary.", "Undo", undo, 4000);
  }

  async function takeBack(candidate, id) {
    if (await post({ action: "remove", id })) { candidate.classList.remove("chosen"); say("Removed from the glossary."); }
  }

  // Sends a change to the glossary; shows why it was refused, and then returns null.
  async function post(fields) {
    const data = new FormData();
    for (const [name, value] of Object.entries(fields)) data.set(name, value);
    try {
      const response = await fetch("/glossary", { method: "POST", body: data, headers: { Accept: "application/json" } });
      const answer = await response.json();
      if (response.ok) return answer;
      notice(sentence(answer.error.message));
    } catch { notice("The server does not answer: the glossary is unchanged."); }
    return null;
  }

  document.addEventListener("paste", (event) => { // text that is pasted anywhere is looked up
    const text = event.clipboardData.getData("text/plain");
    if (!$("ask") || !text.trim() || document.activeElement.closest(FIELDS)) return;
    event.preventDefault();
    $("q").value = text;
    ask();
  });

  async function copy(text, button) {
    let done = true;
    try {
      await navigator.clipboard.writeText(text);
    } catch { // the clipboard API needs permission and a secure address; this way does not
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
    const label = button.dataset.label || button.textContent;
    button.dataset.label = label;
    button.textContent = "Copied";
    button.classList.add("done");
    setTimeout(() => { button.textContent = label; button.classList.remove("done"); }, 1500);
  }

  async function unfold(line) {
    const more = line.querySelector(".more"), next = line.nextElementSibling;
    const shown = next && next.matches(".translation") ? next.nextElementSibling : next;
    if (shown && shown.matches(".whole-row")) {
      shown.remove();
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
    (next && next.matches(".translation") ? next : line).after(row);
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
    } catch { /* storage is full or forbidden: there is no history */ }
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

  // Reads a setting from this browser's storage, or sets it if a value is given.
  function setting(name, value) {
    try {
      if (value === undefined) return localStorage.getItem(`phrasemate.${name}`) || "";
      localStorage.setItem(`phrasemate.${name}`, value);
    } catch { /* storage is forbidden: nothing is stored */ }
    return value || "";
  }

  // Parameters that this browser remembers for addresses without them: indexes, view, order and language.
  const CHOICES = ["in", "view", "sort", "lang"];

  function keepChoices() {
    const fields = new URLSearchParams(location.search), kept = new URLSearchParams();
    for (const name of CHOICES) for (const value of fields.getAll(name)) kept.append(name, value);
    setting("choices", String(kept));
  }

  function withChoices() {
    const fields = new URLSearchParams(location.search), kept = new URLSearchParams(setting("choices"));
    if (!String(kept) || CHOICES.some((name) => fields.has(name))) return "";
    const offered = [...document.querySelectorAll("#ask input[name=in]")].map((box) => box.value);
    for (const name of kept.getAll("in")) if (!offered.includes(name)) return ""; // the server no longer serves this index
    for (const [name, value] of kept) fields.append(name, value);
    return `/?${fields}`;
  }

  // -- start

  function enhance() {
    enhanceText();
    enhanceForm();
  }

  if ($("ask")) {
    enhance();
    enhanceAnswer();
    showHistory();
    showCurrent();
    if ($("asked") && document.activeElement === document.body) focusPhrase(current()); // where the arrow keys start
    $("keys-open").addEventListener("click", () => $("keys").showModal());
    $("history-clear").addEventListener("click", () => { localStorage.removeItem(HISTORY); showHistory(); });
    if ($("asked")) remember($("asked").textContent, (document.querySelector(".candidate") || { dataset: {} }).dataset.text || "");
    if (withChoices()) go(withChoices(), "replace");
    addEventListener("popstate", () => { // following a skip link fires this event, too
      if (shown !== here()) go(location.href, "none");
    });
  }
})();
