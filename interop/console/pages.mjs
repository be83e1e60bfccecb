// Every page at three sizes, light and dark: no fault, no page wider than the window, nothing serious for axe.

import { SIZES } from './browser.mjs';
import { addExamples } from './content.mjs';

export const PAGES = [
  '/', '/ui?view=table', '/ui?q=notes', '/ui?q=nothing-like-it', '/ui/skills/release-notes', '/ui/skills/release-notes?tab=files&path=scripts/log.sh',
  '/ui/skills/release-notes?tab=install', '/ui/skills/release-notes?tab=trust', '/ui/skills/release-notes?tab=explain',
  '/ui/prompts/plan', '/ui/publish', '/ui/publish?id=release-notes', '/ui/live', '/ui/overview', '/ui/people', '/ui/people/log', '/ui/people/log?log=skills', '/ui/skills/release-notes?tab=versions', '/ui/sign-in', '/ui/nothing',
];

export default async function pages(run) {
  addExamples(run);
  run.skills('prompt', 'add', 'plan', '--description', 'Plan a day', '--function', 'planner::plan');
  for (const size of Object.keys(SIZES)) {
    for (const scheme of ['light', 'dark']) {
      const window = await run.browser.window({ size, scheme });
      for (const path of PAGES) {
        await window.open(path);
        const about = `${path} on a ${size}, ${scheme}`;
        await window.expectStill(run.checks, about);
        await window.expectCalm(run.checks, about);
        await window.expectAccessible(run.checks, about);
      }
      await window.close();
      const plain = await run.browser.window({ script: false, size, scheme });
      for (const path of PAGES) {
        await plain.open(path);
        const about = `${path} without scripts on a ${size}, ${scheme}`;
        await plain.expectCalm(run.checks, about);
        run.checks.equal(await plain.page.locator('[data-copy]:visible').count(), 0, `${about}: copy buttons`);
      }
      await plain.close();
    }
  }
}
