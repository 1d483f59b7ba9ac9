// Looks up the selected words on the page of a phrasemate server, in a narrow window at the right of the screen.
"use strict";
const SERVER = "http://127.0.0.1:8000", WIDTH = 420, LONGEST = 5000;

async function look(text) {
  const { server } = await chrome.storage.local.get({ server: SERVER });
  const address = `${server}/?${new URLSearchParams({ q: text.trim().slice(0, LONGEST) })}`;
  const { docked } = await chrome.storage.session.get("docked");
  if (docked) {
    try {
      const [tab] = await chrome.tabs.query({ windowId: docked });
      await chrome.tabs.update(tab.id, { url: address });
      await chrome.windows.update(docked, { focused: true });
      return;
    } catch { /* the user closed the window */ }
  }
  const current = await chrome.windows.getLastFocused().catch(() => ({}));
  const place = current.width ? { left: Math.max(current.left + current.width - WIDTH, 0), top: current.top, height: current.height } : {};
  const popup = { url: address, type: "popup", width: WIDTH };
  const opened = await chrome.windows.create({ ...popup, ...place }).catch(() => chrome.windows.create(popup)); // the place is off the screen
  await chrome.storage.session.set({ docked: opened.id });
}

chrome.runtime.onInstalled.addListener(() => {
  chrome.contextMenus.create({ id: "look", title: "Look up “%s” in phrasemate", contexts: ["selection"] });
});
chrome.contextMenus.onClicked.addListener((info) => look(info.selectionText));
chrome.action.onClicked.addListener(async (tab) => {
  const [{ result }] = await chrome.scripting.executeScript({ target: { tabId: tab.id }, func: () => String(getSelection()) });
  if (result.trim()) look(result);
});
