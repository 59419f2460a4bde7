// What is wrong with how a page looks, as a list of sentences. `background` is what paper has, or null: the page's own.
(background => {
  const wrong = [];
  const told = element => element.tagName + " '" + element.textContent.trim().slice(0, 40) + "'";
  const numbers = colour => colour.match(/[\d.]+/g).map(Number);
  const luminance = colour => {
    const [red, green, blue] = numbers(colour).map(part => {
      const share = part / 255;
      return share <= 0.03928 ? share / 12.92 : ((share + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  // WCAG 2: 4.5 for text.
  const contrast = (one, other) => {
    const [low, high] = [luminance(one), luminance(other)].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05);
  };
  const paper = background ?? getComputedStyle(document.body).backgroundColor;
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) {
    wrong.push("the page is " + document.documentElement.scrollWidth + " px wide on " + width);
  }
  for (const element of document.body.querySelectorAll("*")) {
    const box = element.getBoundingClientRect();
    if (box.width === 0 || element.closest("details:not([open]) > :not(summary)")) continue;
    const has_text = [...element.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    if (has_text) {
      const style = getComputedStyle(element);
      const colour = element instanceof SVGElement ? style.fill : style.color;
      const found = contrast(colour, paper);
      if (found < 4.5) wrong.push(told(element) + " has a contrast of " + found.toFixed(1));
    }
    if (!element.closest(".wide") && box.right > width + 1) {
      wrong.push(told(element) + " ends at " + box.right.toFixed() + " of " + width);
    }
    if (element instanceof SVGTextElement) {
      const frame = element.ownerSVGElement.getBoundingClientRect();
      const inside = box.left >= frame.left - 1 && box.right <= frame.right + 1
        && box.top >= frame.top - 2 && box.bottom <= frame.bottom + 2;
      if (!inside) wrong.push(told(element) + " is cut off");
    }
  }
  return wrong;
})
