// The time axis of a run: the periods during which it was open, one after the other. The time
// between two periods, which may be a whole night, is shown as a narrow break.

const gap = 0.012; // the width of a break, as a share of the whole
const margin = 0.008; // at the end of the axis, so that calls that took no time are visible there

export class Scale {
  pieces = []; // {from, to, x0, x1}: times, and their positions from 0 to 1

  // The scale shows a run's openings up to the time end. If range is not 0, it shows only their
  // last range ms.
  constructor(openings, end, range) {
    let pieces = openings.map(({ start, end: until }) => ({ from: start, to: Math.max(start + 1, until || end) }));
    if (range > 0) pieces = lastOf(pieces, range);
    const breaks = Math.min(0.2, gap * Math.max(0, pieces.length - 1));
    const total = pieces.reduce((sum, p) => sum + p.to - p.from, 0);
    let x = 0;
    for (const p of pieces) {
      const width = ((p.to - p.from) / total) * (1 - breaks - margin);
      this.pieces.push({ ...p, x0: x, x1: x + width });
      x += width + breaks / Math.max(1, pieces.length - 1);
    }
    this.length = total;
  }

  // x returns the position of a time. It is below 0 if the time is before the axis.
  x(time) {
    const { pieces } = this;
    if (pieces.length === 0 || time < pieces[0].from) return -1;
    for (const p of pieces) {
      if (time < p.from) return p.x0;
      if (time <= p.to) return p.x0 + ((time - p.from) / (p.to - p.from)) * (p.x1 - p.x0);
    }
    return 1;
  }

  // breaks returns the positions at which time is left out.
  breaks() {
    return this.pieces.slice(1).map((p, i) => ({ x: this.pieces[i].x1, width: p.x0 - this.pieces[i].x1, ms: p.from - this.pieces[i].to }));
  }

  // ticks returns marks at round intervals from the beginning of the axis.
  ticks(most) {
    const step = steps.find((s) => this.length / s <= most) ?? this.length;
    const ticks = [];
    let before = 0;
    for (const p of this.pieces) {
      const first = Math.ceil(before / step) * step;
      for (let t = first; t <= before + p.to - p.from; t += step) {
        ticks.push({ x: this.x(p.from + t - before), ms: t });
      }
      before += p.to - p.from;
    }
    return ticks;
  }
}

const steps = [10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 10e3, 15e3, 30e3, 60e3, 120e3, 300e3, 600e3, 900e3, 1800e3, 3600e3, 7200e3, 21600e3, 43200e3, 86400e3, 604800e3];

function lastOf(pieces, range) {
  const kept = [];
  for (const p of [...pieces].reverse()) {
    if (range <= 0) break;
    const from = Math.max(p.from, p.to - range);
    range -= p.to - from;
    kept.unshift({ from, to: p.to });
  }
  return kept;
}
