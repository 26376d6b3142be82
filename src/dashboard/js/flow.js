// How many jobs come into each state, from the events alone.
//
// Events tell where a job is now, gathered over a quarter of a second: one that went through three states meanwhile is
// told once. Of jobs that were seen before, and of those that are newer than the page, it is known what lies between, and
// that is counted, too.

const SECONDS = 60;
/** How many jobs are remembered; the oldest are forgotten first. */
const REMEMBERED = 20_000;

export class Flow {
  #chain = [];
  #seen = new Map();
  #buckets = new Map();
  /** The newest job when the events began: what comes later was seen from its beginning. */
  #newest = null;

  /** The states in the order in which jobs walk through them. */
  follow(chain) {
    this.#chain = chain;
  }

  /** Events are followed from here on; `jid` is the newest job there is, if any. */
  begin(jid) {
    this.#newest = jid ?? "";
  }

  moved(jobs, now = Date.now()) {
    for (const { jid, state } of jobs) {
      const before = this.#seen.get(jid);
      this.#seen.delete(jid);
      if (state === null) {
        continue;
      }
      this.#seen.set(jid, state);
      if (before !== state) {
        this.#between(before, state, jid).forEach((passed) => this.#count(passed, now));
      }
    }
    const surplus = this.#seen.size - REMEMBERED;
    if (surplus > 0) {
      const oldest = this.#seen.keys();
      for (let index = 0; index < surplus; index += 1) {
        this.#seen.delete(oldest.next().value);
      }
    }
  }

  #between(before, state, jid) {
    // Ids are of one length, and grow.
    const isNew = before === undefined && this.#newest !== null && jid > this.#newest;
    const from = isNew ? -1 : this.#chain.indexOf(before);
    const to = this.#chain.indexOf(state);
    return (from >= 0 || isNew) && to > from ? this.#chain.slice(from + 1, to + 1) : [state];
  }

  #count(state, now) {
    const second = Math.floor(now / 1000);
    const buckets = this.#buckets.get(state) ?? new Map();
    buckets.set(second, (buckets.get(second) ?? 0) + 1);
    for (const old of buckets.keys()) {
      if (old > second - SECONDS) {
        break;
      }
      buckets.delete(old);
    }
    this.#buckets.set(state, buckets);
  }

  /** How many came in the last minute. */
  rate(state, now = Date.now()) {
    return this.bars(state, 1, now)[0];
  }

  /** The last minute in `parts` parts, the newest last. */
  bars(state, parts, now = Date.now()) {
    const bars = new Array(parts).fill(0);
    const second = Math.floor(now / 1000);
    for (const [at, count] of this.#buckets.get(state) ?? []) {
      const age = second - at;
      if (age >= 0 && age < SECONDS) {
        bars[parts - 1 - Math.floor((age * parts) / SECONDS)] += count;
      }
    }
    return bars;
  }

  /** Whether anything has moved in the last minute. */
  isMoving(now = Date.now()) {
    return [...this.#buckets.keys()].some((state) => this.rate(state, now) > 0);
  }
}
