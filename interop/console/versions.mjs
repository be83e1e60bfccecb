// Comparing, promoting, rolling back and yanking versions, with and without scripts.

import { RELEASE_NOTES } from './content.mjs';
import { publishText } from './walk.mjs';

export default async function versions(run) {
  for (const script of [true, false]) {
    const id = script ? 'scripted' : 'unscripted';
    const text = RELEASE_NOTES.replaceAll('release-notes', id);
    const window = await run.browser.window({ script });
    const { page } = window;
    await publishText(page, run.origin, id, text, 'First');
    await publishText(page, run.origin, id, text.replace('Bash(git:*) Read', 'Bash(git:*) Bash(gh:*) Read').replace('in a **minute**', 'at once'), 'Second');
    await window.open(`/ui/skills/${id}?tab=versions`);
    run.checks.that(await page.getByText('Second').isVisible(), 'the message is shown');
    await page.getByRole('button', { name: 'Compare' }).click();
    await page.locator('.comparison').waitFor();
    const comparison = await page.locator('.comparison').textContent();
    run.checks.that(comparison.includes('This change allows more') && comparison.includes('Bash(gh:*)'), 'what the change allows comes first');
    run.checks.that(await page.locator('.diff .add').count() > 0, 'lines are side by side');
    await window.expectCalm(run.checks, `comparison, ${id}`);
    if (script) await window.expectAccessible(run.checks, 'comparison');

    await open(page, 1);
    await page.locator('#v1').getByRole('button', { name: 'Roll back to 1' }).click();
    await page.locator('#v3').waitFor();
    run.checks.that(run.skills('read', `iii://${id}`).includes('in a **minute**'), 'readers get the content of the first version');

    await open(page, 2);
    await page.locator('#v2').getByRole('button', { name: 'Promote' }).click();
    await page.locator('#v2 .badge', { hasText: 'stable' }).waitFor();
    run.checks.that(run.skills('read', `iii://${id}`).includes('at once'), 'readers get the promoted version');

    await open(page, 3);
    await page.locator('#v3').getByLabel('Yank').fill('Wrong');
    await page.locator('#v3').getByRole('button', { name: 'Yank 3' }).click();
    await page.locator('#v3', { hasText: 'Yanked: Wrong' }).waitFor();
    await window.expectCalm(run.checks, `versions, ${id}`);
    await window.close();
  }
}

async function open(page, version) {
  await page.locator(`#v${version} summary`).click();
}
