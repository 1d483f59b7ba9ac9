"use strict";
const field = document.getElementById("server");
chrome.storage.local.get("server").then(({ server }) => { field.value = server || ""; });
field.addEventListener("change", async () => {
  const address = field.value.trim().replace(/\/+$/, "");
  if (address) await chrome.storage.local.set({ server: address });
  else await chrome.storage.local.remove("server");
  document.getElementById("status").textContent = "Saved.";
});
