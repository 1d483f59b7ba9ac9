// [contrast, what] of every visible text with its ground, as WCAG 2.2 defines it: (lighter + .05) / (darker + .05).
() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const solid = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data];
  };
  const linear = (v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  const light = ([red, green, blue]) =>
    0.2126 * linear(red / 255) + 0.7152 * linear(green / 255) + 0.0722 * linear(blue / 255);
  const ground = (element) => {
    for (let each = element; each; each = each.parentElement) {
      const color = solid(getComputedStyle(each).backgroundColor);
      if (color[3] === 255) return color;
    }
    return [255, 255, 255];
  };
  const texts = "h2, h3, h4, p, td span, mark, button:not(:disabled), a, label, .value, .count, .phrase";
  return [...document.querySelectorAll(texts)]
    .filter((element) => element.offsetParent && element.textContent.trim())
    .map((element) => {
      const own = light(solid(getComputedStyle(element).color)), behind = light(ground(element));
      const contrast = (Math.max(own, behind) + 0.05) / (Math.min(own, behind) + 0.05);
      return [contrast, `${element.className} ${element.textContent.trim().slice(0, 30)}`];
    });
}
