// Runs one check of the console: node run.mjs NAME ORIGIN BUS DATA BINARY PACKAGES. Its last line of output is `checks N`;
// lines that begin with `measured` are times to report.

import { execFileSync } from 'node:child_process';
import { mkdirSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';

import { Browser, Checks } from './browser.mjs';

const [name, origin, bus, data, binary, packages] = process.argv.slice(2);

/** What a check has: the browser, the server's address, and the command line on the same data. */
const run = {
  checks: new Checks(),
  origin,
  bus,
  data,
  binary,
  /** Prints a time. The bound only tells a broken page from a busy machine. */
  measure: (what, milliseconds, bound) => {
    run.checks.that(milliseconds < bound, `${what} took ${milliseconds} ms`);
    console.log(`measured ${what}: ${Math.round(milliseconds)} ms`);
  },
  browser: await Browser.launch(packages, origin),
  skills: (...words) => execFileSync(binary, [...words, '--data-dir', data], { encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, SKILLS_KEY: undefined } }),
  /** Writes a file below the scratch folder and returns its path. */
  write: (path, text) => {
    const full = join(data, '..', path);
    mkdirSync(dirname(full), { recursive: true });
    writeFileSync(full, text);
    return full;
  },
};

try {
  const { default: check } = await import(`./${name}.mjs`);
  await check(run);
  console.log(`checks ${run.checks.count}`);
} finally {
  await run.browser.close();
}
