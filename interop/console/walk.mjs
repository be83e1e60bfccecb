// First visit, adding skills in each way, search, reading, live updates and the keyboard, with and without scripts.

import { SIZES } from './browser.mjs';
import { EVERYTHING, RELEASE_NOTES, addExamples } from './content.mjs';

const PIXEL = Buffer.from('iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mP8z8BQDwAEhQGAhKmMIQAAAABJRU5ErkJggg==', 'base64');

export default async function walk(run) {
  await firstVisit(run);
  await addFromCommandLine(run);
  await searchAndRead(run);
  await everyFeature(run);
  await keyboardOnly(run);
  await fastEnter(run);
  await typedTextStays(run);
  await secondTab(run);
  await withoutScripts(run);
}

async function firstVisit({ browser, checks }) {
  const sizes = Object.keys(SIZES).flatMap((size) => [true, false].map((script) => ({ size, script })));
  for (const { size, script } of sizes) {
    const window = await browser.window({ size, script, permissions: ['clipboard-read', 'clipboard-write'] });
    const response = await window.open('/');
    checks.equal(response.status(), 200, 'the first page');
    for (const words of ['skills add ./my-skills', 'skills add owner/repo', 'Publish a skill']) {
      checks.that(await window.page.getByText(words).first().isVisible(), `an empty registry shows ${words}`);
    }
    await window.expectCalm(checks, 'first visit');
    if (script) {
      await window.expectStill(checks, `first visit on a ${size}`);
      await window.expectAccessible(checks, `first visit on a ${size}`);
      await window.page.locator('[data-copy]').first().click();
      await window.page.getByRole('button', { name: 'Copied' }).waitFor();
      const copied = await window.page.evaluate(() => navigator.clipboard.readText());
      checks.equal(copied, 'skills add ./my-skills', 'what a copy button copies');
    }
    await window.close();
  }
}

async function addFromCommandLine(run) {
  const window = await run.browser.window();
  await window.open('/ui');
  await window.page.locator('#connection', { hasText: 'Live' }).waitFor();
  addExamples(run);
  await window.page.locator('a.entry', { hasText: 'Release notes' }).waitFor();
  await window.page.locator('form[data-search]').waitFor();
  await window.expectCalm(run.checks, 'a change appears on the empty page, with the search');
  await window.close();
}

async function searchAndRead({ browser, checks }) {
  const window = await browser.window();
  const { page } = window;
  await window.open('/ui');
  await page.keyboard.press('/');
  await page.keyboard.type('commits tag');
  await page.waitForURL('**/ui?q=commits+tag');
  await page.locator('a.entry').first().filter({ hasText: 'Release notes' }).waitFor();
  checks.equal(await page.inputValue('#q'), 'commits tag', 'what was typed is kept');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/skills/release-notes');
  checks.that(await page.locator('article .hl-c').first().isVisible(), 'code is highlighted');
  await page.getByRole('link', { name: 'the script' }).click();
  await page.locator('.source-code').waitFor();
  checks.that(page.url().includes('path=scripts%2Flog.sh'), 'a relative link leads to the file');
  for (const tab of ['Install', 'Trust', 'Explain', 'Files', 'Document']) {
    await page.locator('.tabs').getByRole('link', { name: tab }).click();
    await page.locator('.tabs [aria-current]', { hasText: tab }).waitFor();
    await window.expectCalm(checks, tab);
  }
  const [download] = await Promise.all([
    page.waitForEvent('download'),
    page.locator('.tabs').getByRole('link', { name: 'Files' }).click().then(() => page.getByRole('link', { name: 'Download zip' }).click()),
  ]);
  checks.equal(download.suggestedFilename(), 'release-notes.zip', 'the archive');
  await window.open('/ui?tag=writing&view=table');
  checks.that(await page.locator('tbody tr').count() >= 3, 'filters by tag in a table');
  await window.close();
}

async function everyFeature(run) {
  run.write('everything/SKILL.md', EVERYTHING);
  run.write('everything/pixel.png', PIXEL);
  run.skills('add', run.write('everything/.keep', '').replace('/.keep', ''));
  for (const size of ['phone', 'laptop', '4k']) {
    const window = await run.browser.window({ size });
    await window.open('/ui/skills/everything');
    run.checks.that(await window.page.locator('article img').evaluate((image) => image.complete && image.naturalWidth === 1), 'an image of the bundle is shown');
    await window.expectCalm(run.checks, `every feature on a ${size}`);
    await window.expectAccessible(run.checks, `every feature on a ${size}`);
    await window.close();
  }
}

async function keyboardOnly({ browser, checks }) {
  const window = await browser.window();
  const { page } = window;
  await window.open('/ui');
  await page.keyboard.press('Tab');
  checks.equal(await page.evaluate(() => document.activeElement.textContent), 'Skip to content', 'the first stop');
  await page.keyboard.press('Enter');
  checks.equal(await page.evaluate(() => document.activeElement.id), 'main', 'the link skips the navigation');
  await page.keyboard.press('/');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('ArrowDown');
  const second = await page.locator('a.entry').nth(1).getAttribute('href');
  checks.equal(await page.evaluate(() => document.activeElement.getAttribute('href')), second, 'arrows move between entries');
  const hasOutline = await page.evaluate(() => getComputedStyle(document.activeElement, '::after').outlineStyle !== 'none');
  checks.that(hasOutline, 'the focus is visible');
  await page.keyboard.press('ArrowUp');
  await page.keyboard.press('ArrowUp');
  checks.equal(await page.evaluate(() => document.activeElement.id), 'q', 'and back to the search');
  await page.keyboard.press('ArrowDown');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/skills/**');
  await window.close();
}

/** Enter right after the last letter opens the first result of what was typed, not of what was shown before. */
async function fastEnter({ browser, checks }) {
  const window = await browser.window();
  const { page } = window;
  await window.open('/ui/live');
  await page.keyboard.press('/');
  await page.waitForFunction(() => document.activeElement?.id === 'q');
  checks.equal(new URL(page.url()).hash, '', 'the slash on another page leads to the search');
  await page.keyboard.insertText('forecasts city');
  await page.keyboard.press('Enter');
  await page.waitForURL('**/ui/skills/weather');
  checks.that(true, 'Enter opens what was typed');
  await window.close();
}

/** What is typed in a form stays while others change the skill, and the page catches up when the field is empty again. */
async function typedTextStays(run) {
  const window = await run.browser.window();
  const { page } = window;
  await window.open('/ui/skills/weather?tab=versions');
  await page.locator('#connection', { hasText: 'Live' }).waitFor();
  await page.locator('#v1 summary').click();
  const reason = page.locator('#v1').getByLabel('Yank');
  await reason.fill('Half a sentence');
  await page.locator('h1').click();
  run.write('examples/weather/SKILL.md', '---\nname: weather\ndescription: Forecasts for any city. Use before a trip.\n---\n# Weather\n\nNew.\n');
  run.skills('add', run.write('examples/weather/.keep', '').replace('/.keep', ''));
  await page.locator('#head', { hasText: 'version 2' }).waitFor();
  run.checks.equal(await reason.inputValue(), 'Half a sentence', 'what was typed is kept without the focus');
  await reason.fill('');
  await page.locator('h1').click();
  await page.locator('#v2').waitFor();
  await window.expectCalm(run.checks, 'typed text');
  await window.close();
}

/** Publishes in one tab while text is being typed in another, which shows the change without losing the text. */
export async function secondTab(run) {
  const window = await run.browser.window();
  const { page } = window;
  await window.open('/ui');
  await page.locator('#connection', { hasText: 'Live' }).waitFor();
  await page.focus('#q');
  await page.keyboard.type('appear');
  await page.locator('#results', { hasText: 'Nothing found' }).waitFor();
  const marked = page.evaluate(() => new Promise((resolve) => {
    new MutationObserver(() => document.querySelector('a.entry') && resolve(Date.now())).observe(document.body, { childList: true, subtree: true });
  }));
  const other = await run.browser.window();
  let sent;
  other.page.on('request', (request) => {
    if (request.url().endsWith('/ui/publish/confirm')) sent = Date.now();
  });
  await publishText(other.page, run.origin, 'appearing', RELEASE_NOTES.replaceAll('release-notes', 'appearing').replace('# Release notes', '# Appearing'));
  run.measure('from publishing to the change in another tab', await marked - sent, 30_000);
  run.checks.equal(await page.inputValue('#q'), 'appear', 'what is being typed is not lost');
  run.checks.equal(await page.evaluate(() => document.activeElement.id), 'q', 'nor the focus');
  await window.expectCalm(run.checks, 'second tab');
  await other.close();
  await window.close();
}

/** Publishes pasted text, and waits for the page of the skill. */
export async function publishText(page, origin, id, text, message = '') {
  await page.goto(`${origin}/ui/publish`);
  await page.fill('#id', id);
  await page.fill('#text', text);
  await page.getByRole('button', { name: 'Review' }).click();
  if (message) await page.fill('#message', message);
  await page.getByRole('button', { name: /^Publish/ }).click();
  await page.waitForURL(`**/ui/skills/${id}**`);
}

async function withoutScripts(run) {
  const window = await run.browser.window({ script: false });
  const { page } = window;
  await publishText(page, run.origin, 'plain', '---\nname: plain\ndescription: Made without scripts.\n---\n# Plain\n\nText.\n');
  run.checks.equal(run.skills('read', 'iii://plain'), '---\nname: plain\ndescription: Made without scripts.\n---\n# Plain\n\nText.\n', 'line ends are kept');
  await window.open('/ui');
  await page.fill('#q', 'without scripts');
  await page.getByRole('button', { name: 'Search' }).click();
  await page.locator('a.entry').first().click();
  run.checks.that(page.url().endsWith('/ui/skills/plain'), 'search and read without scripts');
  await window.expectCalm(run.checks, 'without scripts');
  await window.close();
}
