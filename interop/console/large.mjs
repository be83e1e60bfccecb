// Ten thousand skills: one page of entries is sent, and how long the first paint and a change elsewhere take.

import { secondTab } from './walk.mjs';

const COUNT = 10_000;
const BOUND = 30_000;

export default async function large(run) {
  for (let number = 0; number < COUNT; number += 1) {
    const id = `skill-${String(number).padStart(5, '0')}`;
    run.write(`many/${id}/SKILL.md`, `---\nname: ${id}\ndescription: Number ${number} of many. Use it for task ${number}.\n---\n# Skill ${number}\n\nText ${number}.\n`);
  }
  run.skills('add', run.write('many/.keep', '').replace('/.keep', ''));
  await firstPaint(run);
  await secondTab(run);
}

/** Opens Browse with an empty cache. */
async function firstPaint(run) {
  const window = await run.browser.window();
  await window.open('/ui');
  run.checks.equal(await window.page.locator('a.entry').count(), 48, 'one page of entries');
  const { answer, paint } = await window.page.evaluate(async () => {
    const paint = await new Promise((resolve) => {
      new PerformanceObserver((list) => resolve(list.getEntries()[0].startTime)).observe({ type: 'paint', buffered: true });
    });
    const [{ requestStart, responseEnd }] = performance.getEntriesByType('navigation');
    return { answer: responseEnd - requestStart, paint };
  });
  run.measure(`answer of Browse with ${COUNT} skills`, answer, BOUND);
  run.measure(`first paint of Browse with ${COUNT} skills`, paint, BOUND);
  await window.expectCalm(run.checks, 'many skills');
  await window.close();
}
