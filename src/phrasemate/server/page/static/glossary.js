// Saves an entry as soon as one of its fields changes.
"use strict";
(() => {
  const status = document.getElementById("status");
  for (const form of document.querySelectorAll(".entry")) {
    form.addEventListener("change", async () => {
      const data = new FormData(form);
      data.set("action", "change");
      try {
        const response = await fetch(form.getAttribute("action"), { method: "POST", body: data, headers: { Accept: "application/json" } });
        const answer = await response.json();
        const message = response.ok ? "saved" : answer.error.message;
        status.textContent = `${message[0].toUpperCase()}${message.slice(1)}.`;
        form.classList.toggle("unsaved", !response.ok);
      } catch {
        status.textContent = "The server does not answer: this change is not saved.";
        form.classList.add("unsaved");
      }
    });
  }
})();
