// Which part of the chosen block each device has, on the picture of the devices.
(() => {
  'use strict';
  const data = document.getElementById('model-data');
  if (!data) return;
  const blocks = JSON.parse(data.textContent);
  const buttons = [...document.querySelectorAll('.blocks button')];
  const devices = [...document.querySelectorAll('.devices .device')];
  const parts = [...document.querySelectorAll('.devices .part')];
  const chosen = document.querySelector('.chosen');

  // [device of each part], from the runs of consecutive ones.
  function devicesOf(block) {
    const all = [];
    for (let i = 0; i < block.devices.length; i += 2)
      for (let k = 0; k < block.devices[i + 1]; k++) all.push(block.devices[i] + k);
    return all;
  }

  // Degrees from the outermost in: replicas, then axes.
  function degreesOf(block) {
    const degrees = block.replicas > 1 ? [['replica', block.replicas]] : [];
    for (let i = 0; i < block.axes.length; i += 2) degrees.push([block.axes[i], block.axes[i + 1]]);
    return degrees;
  }

  // What a part has of each, from the innermost out.
  function placeOf(part, degrees) {
    const place = [];
    for (let i = degrees.length - 1; i >= 0; i--) {
      place.unshift(part % degrees[i][1]);
      part = Math.floor(part / degrees[i][1]);
    }
    return place;
  }

  let current = null;
  function choose(index) {
    const block = blocks[index];
    const degrees = degreesOf(block);
    current = { block, degrees, partOf: new Map() };
    devicesOf(block).forEach((device, part) => current.partOf.set(device, part));
    devices.forEach((rect, device) => {
      const part = current.partOf.get(device);
      const place = part === undefined ? null : placeOf(part, degrees);
      rect.setAttribute('class', place ? 'device p' + (place.length ? place[0] % 8 : 0) : 'device');
      if (parts[device])
        parts[device].textContent = !place ? '' : place.length ? place.join('\u00b7') : 'whole';
    });
    buttons.forEach((button, i) => button.setAttribute('aria-pressed', String(i === index)));
    const split = degrees.map(([name, n]) => name + ' in ' + n).join(', ') || 'whole';
    chosen.textContent = block.name + ': ' + split + ', on ' + current.partOf.size +
      (current.partOf.size === 1 ? ' device.' : ' devices.');
    if (parts.length && degrees.length)
      chosen.textContent += ' In each device its part: ' + degrees.map(([name]) => name).join('\u00b7') + '.';
  }

  buttons.forEach((button, index) => {
    button.addEventListener('click', () => choose(index));
    button.addEventListener('focus', () => choose(index));
    button.addEventListener('keydown', (event) => {
      const to = event.key === 'ArrowDown' ? index + 1 : event.key === 'ArrowUp' ? index - 1 : -1;
      if (to < 0 || to >= buttons.length) return;
      event.preventDefault();
      buttons[to].focus();
    });
  });
  devices.forEach((rect, device) => {
    rect.addEventListener('pointerenter', () => {
      const part = current && current.partOf.get(device);
      if (part === undefined || part === null) {
        chosen.textContent = 'Device ' + device + ' has no part of it.';
        return;
      }
      const place = placeOf(part, current.degrees);
      chosen.textContent = 'Device ' + device + ': ' +
        (current.degrees.map(([name, n], i) => name + ' ' + place[i] + ' of ' + n).join(', ') || 'all') +
        ' of ' + current.block.name;
    });
  });

  // To begin with, the block that takes most of the step.
  let most = 0;
  const shares = buttons.map((button) => parseFloat(button.querySelector('.share').textContent));
  shares.forEach((share, i) => { if (share > shares[most]) most = i; });
  if (buttons.length) choose(most);
})();
