// Corrects the address of the server on the page: behind a proxy, only the browser knows it.
"use strict";
(() => {
  const article = document.querySelector("[data-server]"), named = article.dataset.server;
  if (named === location.origin) return;
  for (const code of article.querySelectorAll("code")) code.textContent = code.textContent.replaceAll(named, location.origin);
  const bookmark = article.querySelector(".bookmarklet");
  bookmark.href = bookmark.href.replaceAll(named, location.origin);
})();
