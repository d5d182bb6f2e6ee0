"use strict";
// Draws the page that stands in the element "data". Texts go into text nodes only.
(() => {
  const page = JSON.parse(document.getElementById("data").textContent);
  const add = (parent, name, text) => {
    const e = document.createElement(name);
    if (text !== undefined) e.textContent = text;
    parent.appendChild(e);
    return e;
  };
  const table = (parent, t) => {
    const box = add(parent, "div");
    box.className = "scroll";
    const e = add(box, "table");
    const row = (cells, name) => {
      const r = add(e, "tr");
      for (const c of cells) add(r, name, c);
    };
    row(t.header, "th");
    for (const r of t.rows) row(r, "td");
  };
  const format = (v) => v === null || v === undefined ? "–" : String(Number(Number(v).toPrecision(4)));
  const short = (v) => {
    const power = Math.min(4, Math.floor(Math.log10(Math.max(1, Math.abs(v))) / 3));
    return format(v / 1000 ** power) + ["", " k", " M", " G", " T"][power];
  };
  const chart = (parent, c) => {
    const e = add(parent, "div");
    e.className = "chart";
    const drawn = echarts.init(e, null, { renderer: "svg" });
    drawn.setOption({
      animation: false,
      aria: { enabled: true },
      title: { text: c.title, textStyle: { fontSize: 14 } },
      legend: { type: "scroll", bottom: 0 },
      tooltip: { trigger: "axis", renderMode: "richText", valueFormatter: format },
      grid: { top: 60, bottom: 90, left: 60, right: 20 },
      xAxis: {
        type: "category", data: c.categories,
        axisLabel: c.line ? {} : { interval: 0, rotate: c.categories.length > 5 ? 25 : 0 },
      },
      yAxis: { type: "value", name: c.unit, axisLabel: { formatter: short } },
      series: c.series.map((s) => ({
        name: s.name, type: c.line ? "line" : "bar", data: s.values, showSymbol: c.categories.length <= 20,
      })),
    });
    addEventListener("resize", () => drawn.resize());
  };
  const main = document.getElementById("report");
  add(main, "h1", page.title);
  for (const s of page.sections) {
    const section = add(main, "section");
    add(section, "h2", s.title);
    for (const line of s.lines || []) add(section, "p", line);
    if (s.charts) {
      const grid = add(section, "div");
      grid.className = "charts";
      for (const c of s.charts) chart(grid, c);
    }
    for (const t of s.tables || []) table(section, t);
  }
})();
