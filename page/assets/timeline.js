// The step over time: lanes of some devices, by one clock; zoomed, moved and read by mouse or by keys.
(() => {
  'use strict';
  const place = document.querySelector('.timeline');
  if (!place) return;
  const data = JSON.parse(document.getElementById('timeline-data').textContent);
  const readout = document.querySelector('.readout');
  const SORTS = ['forward', 'input-gradient', 'weight-gradient', 'update', 'exchange', 'sync', 'waiting'];
  const LEFT = 118, TOP = 26, MAIN = 22, COMMUNICATION = 11;
  const svgOf = (name, attributes) => {
    const element = document.createElementNS('http://www.w3.org/2000/svg', name);
    for (const key in attributes) element.setAttribute(key, attributes[key]);
    return element;
  };

  // A lane of spans, as arrays: when each begins and ends in seconds, its sort, and its label.
  function readLane(timeline, lane) {
    const n = lane.spans.length / 4;
    const made = { ...lane, n, start: new Float64Array(n), end: new Float64Array(n), sort: new Uint8Array(n),
                   critical: new Uint8Array(n), label: new Int32Array(n), labels: timeline.labels };
    let at = 0;
    for (let i = 0; i < n; i++) {
      at += lane.spans[4 * i];
      made.start[i] = at * timeline.tick_seconds;
      at += lane.spans[4 * i + 1];
      made.end[i] = at * timeline.tick_seconds;
      made.sort[i] = lane.spans[4 * i + 2] & 7;
      made.critical[i] = lane.spans[4 * i + 2] >> 3;
      made.label[i] = lane.spans[4 * i + 3];
    }
    return made;
  }

  const timelines = Object.keys(data).map((key) => ({ key, ...data[key] }));
  const whole = Math.max(...timelines.map((t) => Math.max(t.step_seconds, t.measured_step_seconds || 0))) * 1.005;
  const lanes = [], titles = [];
  let height = TOP;
  for (const timeline of timelines) {
    if (timelines.length > 1) {
      titles.push({ y: height + 14, text: timeline.key.toUpperCase() + ': ' + format(timeline.step_seconds) });
      height += 22;
    }
    let device = null;
    for (const raw of timeline.lanes) {
      const isMain = raw.lane === 'main';
      if (raw.spans.length === 0 && !isMain) continue;
      if (isMain) height += raw.device === device ? 4 : 10;
      if (raw.device !== device)
        titles.push({ y: height + 12, text: 'device ' + raw.device, more: raw.alike > 1 ? 'and ' + (raw.alike - 1) + ' alike' : '' });
      device = raw.device;
      const lane = readLane(timeline, raw);
      lane.y = height;
      lane.height = isMain ? MAIN : COMMUNICATION;
      lane.stepSeconds = raw.side === 'measured' ? timeline.measured_step_seconds : timeline.step_seconds;
      lanes.push(lane);
      height += lane.height + 1;
    }
    height += 8;
  }

  function format(seconds) {
    const units = [['s', 1], ['ms', 1e-3], ['us', 1e-6], ['ns', 1e-9]];
    const [name, factor] = units.find(([, f]) => Math.abs(seconds) >= f) || units[3];
    return Number((seconds / factor).toPrecision(4)) + ' ' + name;
  }

  const svg = svgOf('svg', { class: 'drawing', height });
  place.append(svg);
  let width = 0, from = 0, to = whole, row = 0, picked = null;
  const pixels = () => width - LEFT - 8;
  const xOf = (seconds) => LEFT + (seconds - from) / (to - from) * pixels();

  // The first span that ends after a time.
  function firstAfter(lane, seconds) {
    let low = 0, high = lane.n;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (lane.end[middle] <= seconds) low = middle + 1; else high = middle;
    }
    return low;
  }

  // One path for each sort: many spans, few elements.  What is narrower than a pixel joins its like.
  function drawLane(lane) {
    const paths = SORTS.map(() => ''), open = SORTS.map(() => null);
    let critical = '';
    const flush = (sort) => {
      const o = open[sort];
      if (o) paths[sort] += 'M' + o[0].toFixed(1) + ' ' + lane.y + 'h' + Math.max(0.4, o[1] - o[0]).toFixed(1) +
        'v' + lane.height + 'H' + o[0].toFixed(1) + 'z';
      open[sort] = null;
    };
    for (let i = firstAfter(lane, from); i < lane.n && lane.start[i] < to; i++) {
      const a = Math.max(LEFT, xOf(lane.start[i])), b = Math.min(width - 8, xOf(lane.end[i])), sort = lane.sort[i];
      if (open[sort] && a - open[sort][1] < 0.35) open[sort][1] = Math.max(open[sort][1], b);
      else { flush(sort); open[sort] = [a, b]; }
      if (lane.critical[i]) critical += 'M' + a.toFixed(1) + ' ' + (lane.y + lane.height + 0.5) + 'H' + b.toFixed(1);
    }
    SORTS.forEach((_, sort) => {
      flush(sort);
      if (paths[sort]) svg.append(svgOf('path', { class: 's' + sort, d: paths[sort] }));
    });
    if (critical) svg.append(svgOf('path', { class: 'critical', d: critical }));
  }

  function drawAxis() {
    const rough = (to - from) / Math.max(2, pixels() / 110), power = 10 ** Math.floor(Math.log10(rough));
    const step = power * [1, 2, 5, 10].find((m) => m * power >= rough);
    for (let i = Math.ceil(from / step); i * step <= to; i++) {
      const x = xOf(i * step);
      svg.append(svgOf('path', { class: 'grid', d: 'M' + x.toFixed(1) + ' ' + (TOP - 6) + 'V' + height }));
      const text = svgOf('text', { x: x.toFixed(1), y: 13, 'text-anchor': i === 0 ? 'start' : 'middle' });
      text.textContent = i === 0 ? '0' : format(i * step);
      if (x < width - 24) svg.append(text);
    }
  }

  function drawNames() {
    for (const title of titles) {
      const text = svgOf('text', { x: 0, y: title.y, class: 'name' });
      text.textContent = title.text;
      svg.append(text);
      if (title.more) {
        const more = svgOf('text', { x: 0, y: title.y + 13, class: 'side' });
        more.textContent = title.more;
        svg.append(more);
      }
    }
    if (!lanes.some((lane) => lane.side === 'measured')) return;
    for (const lane of lanes)
      if (lane.lane === 'main') {
        const text = svgOf('text', { x: LEFT - 5, y: lane.y + 14, class: 'side', 'text-anchor': 'end' });
        text.textContent = lane.side;
        svg.append(text);
      }
  }

  function draw() {
    svg.replaceChildren();
    svg.setAttribute('width', width);
    drawAxis();
    for (const lane of lanes) {
      svg.append(svgOf('rect', { class: 'strip', x: LEFT, y: lane.y, width: Math.max(0, pixels()), height: lane.height }));
      drawLane(lane);
      const x = xOf(lane.stepSeconds);
      if (x >= LEFT && x <= width)
        svg.append(svgOf('path', { class: 'end', d: 'M' + x.toFixed(1) + ' ' + lane.y + 'v' + lane.height }));
    }
    drawNames();
    if (picked && lanes[row].end[picked.index] > from && lanes[row].start[picked.index] < to) {
      const lane = lanes[row], a = Math.max(LEFT, xOf(lane.start[picked.index]));
      const b = Math.min(width - 8, xOf(lane.end[picked.index]));
      svg.append(svgOf('rect', { class: 'picked', x: a, y: lane.y, width: Math.max(1, b - a), height: lane.height }));
    }
  }

  // ---- moving ----

  function show(a, b) {
    const least = whole / 2e5, span = Math.min(whole, Math.max(least, b - a));
    from = Math.min(Math.max(0, (a + b - span) / 2), whole - span);
    to = from + span;
    requestAnimationFrame(draw);
  }
  const zoom = (factor, at) => show(at - (at - from) * factor, at + (to - at) * factor);
  const move = (share) => show(from + share * (to - from), to + share * (to - from));
  const timeAt = (x) => from + (x - LEFT) / pixels() * (to - from);

  // ---- reading ----

  function say(lane, index) {
    if (index < 0 || index >= lane.n) return;
    const label = lane.label[index];
    readout.textContent = 'device ' + lane.device + ', ' + lane.side + ', ' + lane.lane + ' lane: ' +
      (label < 0 ? -label + ' items, mostly ' + SORTS[lane.sort[index]] : lane.labels[label]) + ', ' +
      format(lane.end[index] - lane.start[index]) + ' from ' + format(lane.start[index]) +
      (lane.critical[index] ? ', on the critical path' : '');
  }
  function pick(index) {
    const lane = lanes[row];
    if (index < 0 || index >= lane.n) return;
    picked = { index };
    if (lane.start[index] < from || lane.end[index] > to) {
      const middle = (lane.start[index] + lane.end[index]) / 2, half = (to - from) / 2;
      show(middle - half, middle + half);
    }
    say(lane, index);
    requestAnimationFrame(draw);
  }
  function changeRow(by) {
    const at = picked ? lanes[row].start[picked.index] : from;
    row = Math.min(lanes.length - 1, Math.max(0, row + by));
    pick(Math.min(lanes[row].n - 1, firstAfter(lanes[row], at)));
  }

  place.addEventListener('pointermove', (event) => {
    const box = svg.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    if (held !== null) {
      show(held.from - (x - held.x) / pixels() * (held.to - held.from), held.to - (x - held.x) / pixels() * (held.to - held.from));
      return;
    }
    const lane = lanes.find((l) => y >= l.y && y < l.y + l.height);
    if (!lane || x < LEFT) return;
    const index = firstAfter(lane, timeAt(x));
    if (index < lane.n && lane.start[index] <= timeAt(x)) say(lane, index);
  });
  let held = null;
  svg.addEventListener('pointerdown', (event) => {
    held = { x: event.clientX - svg.getBoundingClientRect().left, from, to };
    svg.classList.add('held');
    svg.setPointerCapture(event.pointerId);
  });
  const release = () => { held = null; svg.classList.remove('held'); };
  svg.addEventListener('pointerup', release);
  svg.addEventListener('pointercancel', release);
  svg.addEventListener('dblclick', (event) => zoom(0.4, timeAt(event.clientX - svg.getBoundingClientRect().left)));
  place.addEventListener('wheel', (event) => {
    if (!event.ctrlKey && !event.metaKey && document.activeElement !== place) return;
    event.preventDefault();
    zoom(Math.exp(event.deltaY * 0.002), timeAt(event.clientX - svg.getBoundingClientRect().left));
  }, { passive: false });

  const keys = {
    ArrowLeft: () => move(-0.2), ArrowRight: () => move(0.2), '+': () => zoom(0.5, (from + to) / 2),
    '=': () => zoom(0.5, (from + to) / 2), '-': () => zoom(2, (from + to) / 2), '0': () => show(0, whole),
    Home: () => show(0, to - from), End: () => show(whole - (to - from), whole),
    ArrowUp: () => changeRow(-1), ArrowDown: () => changeRow(1),
    n: () => pick(picked ? picked.index + 1 : firstAfter(lanes[row], from)), p: () => pick(picked ? picked.index - 1 : 0),
  };
  place.addEventListener('keydown', (event) => {
    const act = keys[event.key];
    if (!act || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    act();
  });

  const tools = document.createElement('div');
  tools.className = 'tools';
  for (const [text, name, act] of [['+', 'zoom in', keys['+']], ['\u2212', 'zoom out', keys['-']],
                                   ['\u2190', 'earlier', keys.ArrowLeft], ['\u2192', 'later', keys.ArrowRight],
                                   ['whole step', 'the whole step', keys['0']]]) {
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = text;
    button.setAttribute('aria-label', name);
    button.addEventListener('click', act);
    tools.append(button);
  }
  const hint = document.createElement('span');
  hint.textContent = 'Drag to move, Ctrl and wheel to zoom; keys: + \u2212 \u2190 \u2192 0, \u2191 \u2193 for lanes, n and p for items. ' +
    'The line under a lane is the critical path.';
  tools.append(hint);
  place.before(tools);

  new ResizeObserver(() => {
    if (place.clientWidth === width) return;
    width = Math.max(320, place.clientWidth);
    draw();
  }).observe(place);
})();
