// Reading again, when something has changed, without asking the node more than it can bear.

/** Calls `work` soon, and not again before `pause` has passed, however often it is asked to. */
export function throttled(work, pause, signal) {
  let timer = 0;
  let last = 0;
  signal?.addEventListener("abort", () => clearTimeout(timer));
  return () => {
    if (timer === 0 && !signal?.aborted) {
      const wait = Math.max(0, last + pause - Date.now());
      timer = setTimeout(() => {
        timer = 0;
        last = Date.now();
        requestAnimationFrame(work);
      }, wait);
    }
  };
}

/**
 * Reads when it is poked. One reading at a time; between two there is a pause, longer if the last reading took long, so
 * that a page on a big tree takes a tenth of one reader's time at the most. Nothing is read while nobody looks.
 */
export class Refresher {
  #load;
  #pause;
  #signal;
  #timer = 0;
  #running = false;
  #again = false;
  #next = 0;

  constructor(load, { pause = 1_000, signal }) {
    this.#load = load;
    this.#pause = pause;
    this.#signal = signal;
    signal.addEventListener("abort", () => clearTimeout(this.#timer));
    document.addEventListener("visibilitychange", () => this.#seen(), { signal });
  }

  /** Reads as soon as the pause is over. */
  poke() {
    if (this.#signal.aborted || this.#timer !== 0) {
      return;
    }
    if (this.#running || document.hidden) {
      this.#again = true;
      return;
    }
    this.#timer = setTimeout(() => this.now(), Math.max(0, this.#next - Date.now()));
  }

  /** Reads at once: somebody waits for it. */
  async now() {
    clearTimeout(this.#timer);
    this.#timer = 0;
    if (this.#running) {
      this.#again = true;
      return;
    }
    this.#running = true;
    this.#again = false;
    const begun = performance.now();
    try {
      await this.#load();
    } finally {
      this.#running = false;
      this.#next = Date.now() + Math.max(this.#pause, 10 * (performance.now() - begun));
    }
    if (this.#again) {
      this.poke();
    }
  }

  #seen() {
    if (!document.hidden && this.#again && !this.#running) {
      this.poke();
    }
  }
}
