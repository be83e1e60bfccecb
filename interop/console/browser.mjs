// A real browser for the checks of the console: Debian's chromium, driven by playwright-core, which downloads none.

import { readFileSync } from 'node:fs';
import { createRequire } from 'node:module';

/** Sizes at which every page is looked at: a small phone, a laptop, a 4K screen. */
export const SIZES = { phone: [320, 640], laptop: [1280, 800], '4k': [3840, 2160] };

export class CheckFailed extends Error {}

/** Counts what holds and throws on what does not. */
export class Checks {
  count = 0;

  that(condition, sentence) {
    if (!condition) throw new CheckFailed(sentence);
    this.count += 1;
  }

  equal(actual, expected, sentence) {
    const [one, other] = [actual, expected].map((value) => JSON.stringify(value));
    this.that(one === other, `${sentence}: ${one}, not ${other}`);
  }
}

/** Browser that notes everything that must not happen: errors, dialogs, requests to other servers, violations. */
export class Browser {
  static async launch(packages, origin) {
    const require = createRequire(`${packages}/node_modules/`);
    const { chromium } = require('playwright-core');
    const executablePath = process.env.CHROMIUM ?? '/usr/bin/chromium';
    const browser = await chromium.launch({ executablePath, args: ['--no-sandbox', '--disable-dev-shm-usage'] });
    return new Browser(browser, origin, readFileSync(require.resolve('axe-core/axe.min.js'), 'utf8'));
  }

  constructor(browser, origin, axe) {
    Object.assign(this, { browser, origin, axe, contexts: [] });
  }

  /** Opens a window with its own cookies. */
  async window({ size = 'laptop', scheme = 'light', script = true, ...options } = {}) {
    const [width, height] = SIZES[size];
    const context = await this.browser.newContext({
      viewport: { width, height }, colorScheme: scheme, javaScriptEnabled: script, reducedMotion: 'reduce', acceptDownloads: true, ...options,
    });
    const faults = [];
    context.on('page', (page) => this.watch(page, faults));
    context.on('request', (request) => {
      const url = request.url();
      if (!url.startsWith(this.origin) && !url.startsWith('blob:')) faults.push(`request to ${url}`);
    });
    await context.addInitScript(() => {
      document.addEventListener('securitypolicyviolation', (event) => {
        console.error(`violation of ${event.violatedDirective}: ${event.blockedURI}`);
      });
      window.layoutShifts = [];
      new PerformanceObserver((list) => {
        for (const { value, hadRecentInput, sources } of list.getEntries()) {
          const nodes = (sources ?? []).map(({ node }) => node?.id || node?.className || node?.nodeName);
          if (!hadRecentInput) window.layoutShifts.push([value, ...nodes]);
        }
      }).observe({ type: 'layout-shift', buffered: true });
    });
    const page = await context.newPage();
    return new Window(this, context, page, faults);
  }

  watch(page, faults) {
    page.on('dialog', (dialog) => {
      faults.push(`dialog: ${dialog.message()}`);
      dialog.dismiss();
    });
    page.on('console', (message) => {
      const isExpected = /status of (400|401|403|404|409|422)/.test(message.text());
      if (message.type() === 'error' && !isExpected) faults.push(`console: ${message.text()}`);
    });
    page.on('pageerror', (error) => faults.push(`error: ${error.message}`));
    page.on('frameattached', () => faults.push('a frame was attached'));
  }

  async close() {
    await this.browser.close();
  }
}

/** Window of the browser: one page, and what went wrong in it. */
export class Window {
  constructor(browser, context, page, faults) {
    Object.assign(this, { browser, context, page, faults });
  }

  async open(path) {
    const response = await this.page.goto(this.browser.origin + path, { waitUntil: 'load' });
    return response;
  }

  /** Checks that nothing that must not happen has happened, and that the page is not wider than the window. */
  async expectCalm(checks, about) {
    checks.equal(this.faults, [], `${about}: faults`);
    const wide = await this.page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    checks.that(wide <= 1, `${about}: the page is ${wide} px wider than the window`);
  }

  /**
   * Checks that nothing moved while the page was loaded. On a busy machine the browser may paint half a header, whose
   * right end then moves: what moves for another reason moves each time.
   */
  async expectStill(checks, about) {
    const measure = () => this.page.evaluate(() => new Promise((resolve) => {
      requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(() => resolve(window.layoutShifts), 50)));
    }));
    let shifts = await measure();
    for (let attempt = 0; shifts.length && attempt < 3; attempt += 1) {
      await this.page.reload({ waitUntil: 'load' });
      shifts = await measure();
    }
    checks.equal(shifts, [], `${about}: layout shifts`);
  }

  /** Checks that axe finds nothing serious or critical, with the rule on the size of targets switched on. */
  async expectAccessible(checks, about) {
    // Evaluated by the debugger, which the content policy does not concern.
    await this.page.evaluate(this.browser.axe);
    const found = await this.page.evaluate(async () => {
      const rules = { 'target-size': { enabled: true } };
      const { violations } = await window.axe.run(document, { rules, resultTypes: ['violations'] });
      const serious = violations.filter((it) => ['serious', 'critical'].includes(it.impact));
      return serious.map((it) => `${it.id}: ${it.nodes.map((node) => node.target.join(' ')).slice(0, 5).join(', ')}`);
    });
    checks.equal(found, [], `${about}: axe`);
  }

  async close() {
    await this.context.close();
  }
}
