// Behind a proxy the server does not know the address under which it is reached: the browser does.
"use strict";
(() => {
  const article = document.querySelector("[data-server]"), named = article.dataset.server;
  if (named === location.origin) return;
  for (const code of article.querySelectorAll("code")) code.textContent = code.textContent.replaceAll(named, location.origin);
  const bookmark = article.querySelector(".bookmarklet");
  bookmark.href = bookmark.href.replaceAll(named, location.origin);
})();
