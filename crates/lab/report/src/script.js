for (const figure of document.querySelectorAll("figure")) {
  const svg = figure.querySelector("svg:not([aria-hidden])");
  if (!svg) continue;
  const caption = figure.querySelector("figcaption").textContent;
  const name = caption.toLowerCase().replace(/[^a-z0-9]+/g, "-").replace(/^-|-$/g, "").slice(0, 60) || "chart";
  const NS = svg.namespaceURI;
  const STYLES = ["fill", "fill-opacity", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity",
    "font-size", "font-weight", "font-family", "visibility"];
  const copy = from => {
    const to = from.cloneNode(true);
    const all = [from, ...from.querySelectorAll("*")];
    [to, ...to.querySelectorAll("*")].forEach((element, index) => {
      const style = getComputedStyle(all[index]);
      for (const property of STYLES) element.setAttribute(property, style.getPropertyValue(property));
    });
    return to;
  };
  const add = (parent, kind, attributes, text) => {
    const element = document.createElementNS(NS, kind);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    if (text) element.textContent = text;
    parent.append(element);
  };
  // The drawing with its caption and keys above it, independent of the page's style.
  const drawing = () => {
    const box = svg.viewBox.baseVal;
    const ink = getComputedStyle(figure).color;
    const text = { fill: ink, "font-family": "system-ui, sans-serif", "font-size": 12.5 };
    const head = document.createElementNS(NS, "g");
    add(head, "text", { ...text, x: 4, y: 16, "font-weight": 600 }, caption);
    let [x, y] = [4, 34];
    for (const key of figure.querySelectorAll(".keys span")) {
      const width = 36 + 7 * key.textContent.length;
      if (x > 4 && x + width > box.width) [x, y] = [4, y + 16];
      const sample = copy(key.querySelector("svg").firstElementChild);
      sample.setAttribute("transform", "translate(" + x + "," + (y - 9) + ")");
      head.append(sample);
      add(head, "text", { ...text, x: x + 27, y }, key.textContent);
      x += width;
    }
    const top = figure.querySelector(".keys span") ? y + 10 : 26;
    const whole = document.createElementNS(NS, "svg");
    const [width, height] = [box.width, box.height + top];
    for (const [key, value] of [["xmlns", NS], ["viewBox", "0 0 " + width + " " + height], ["width", width], ["height", height]])
      whole.setAttribute(key, value);
    add(whole, "rect", { width, height, fill: getComputedStyle(document.body).backgroundColor });
    const inner = copy(svg);
    for (const [key, value] of [["y", top], ["width", box.width], ["height", box.height]]) inner.setAttribute(key, value);
    whole.append(head, inner);
    return { text: new XMLSerializer().serializeToString(whole), width, height };
  };
  const save = (data_link, kind) => {
    const link = document.createElement("a");
    link.href = data_link;
    link.download = name + "." + kind;
    link.click();
  };
  const data_link = text => "data:image/svg+xml;charset=utf-8," + encodeURIComponent(text);
  const png = ({ text, width, height }) => {
    const image = new Image();
    image.onload = () => {
      const canvas = document.createElement("canvas");
      [canvas.width, canvas.height] = [2 * width, 2 * height];
      canvas.getContext("2d").drawImage(image, 0, 0, canvas.width, canvas.height);
      save(canvas.toDataURL("image/png"), "png");
    };
    image.src = data_link(text);
  };
  let row = figure.querySelector(".save");
  if (!row) figure.append(row = Object.assign(document.createElement("p"), { className: "save" }));
  for (const [kind, act] of [["SVG", () => save(data_link(drawing().text), "svg")], ["PNG", () => png(drawing())]]) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: kind, onclick: act });
    button.setAttribute("aria-label", kind + " of " + caption);
    row.append(button);
  }
}
