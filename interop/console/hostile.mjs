// The corpus of hostile content in a real browser: nothing runs, nothing is requested elsewhere, no layout breaks.

import { readFileSync } from 'node:fs';

const CORPUS = new URL('../../crates/console/tests/fixtures/hostile.json', import.meta.url);
const MAX_DOCUMENT = 256 * 1024;

const expand = (text) => (typeof text === 'string' ? text : `${text.prefix ?? ''}${text.repeat.repeat(text.times)}${text.suffix ?? ''}`);

/** Adds a skill, unless the command line refuses its name or its bytes: then no page shows it. */
function tryAdd(run, path, id) {
  try {
    run.skills('add', path, '--id', id);
    return true;
  } catch {
    return false;
  }
}

/** Runs a tool from its form. Its endpoint does not exist, so the answer is an error with a code. */
async function runTool(run, at) {
  const window = await run.browser.window();
  await window.open(`/ui/skills/m${at}?tab=tools`);
  await window.page.getByRole('button', { name: 'Run' }).click();
  await window.page.locator('.answer .notice.error code').waitFor();
  await window.expectCalm(run.checks, 'the answer of a tool');
  await window.expectAccessible(run.checks, 'the answer of a tool');
  await window.close();
}

export default async function hostile(run) {
  const { documents, files, manifests, prompts } = JSON.parse(readFileSync(CORPUS));
  const addresses = [];
  documents.forEach(({ text }, at) => {
    const path = run.write(`hostile/d${at}.md`, Buffer.from(expand(text)).subarray(0, MAX_DOCUMENT).toString().replace(/\ufffd+$/, ''));
    if (!tryAdd(run, path, `d${at}`)) return;
    addresses.push(`/ui/skills/d${at}`, `/ui/skills/d${at}?tab=trust`);
  });
  files.forEach(({ path, text }, at) => {
    run.write(`hostile/f${at}/${expand(path)}`, expand(text));
    const folder = run.write(`hostile/f${at}/SKILL.md`, `# File ${at}\n`).replace('/SKILL.md', '');
    if (!tryAdd(run, folder, `f${at}`)) return;
    const query = new URLSearchParams({ path: expand(path) });
    addresses.push(`/ui/skills/f${at}?tab=files&${query}`);
    addresses.push([`/ui/raw/f${at}/${expand(path).split('/').map(encodeURIComponent).join('/')}`]);
  });
  for (const [at, { description, arguments: fields }] of prompts.entries()) {
    const words = fields.flatMap((field) => [field.required ? '--required' : '--optional', `${field.name.replaceAll('=', '')}=${field.description ?? ''}`]);
    run.skills('prompt', 'add', `p${at}`, `--description=${description}`, '--function', 'a::b', ...words);
    addresses.push(`/ui/prompts/p${at}`);
  }
  for (const [at, { manifest }] of manifests.entries()) {
    const { name, description, parameters, tags } = manifest;
    const body = { user_uid: 'ann', skill_name: `m${at}`, status: 'official', manifest: { id: `m${at}`, meta: { name, description, parameters, tags }, config: { endpoint: 'https://nobody.invalid', method: 'GET' } } };
    const response = await fetch(`${run.origin}/v1/admin/sync_skill`, { method: 'POST', body: JSON.stringify(body), headers: { 'Content-Type': 'application/json', Authorization: `Bearer ${process.env.INTERNAL_API_SECRET}` } });
    if (response.ok) addresses.push(`/ui/skills/m${at}`, `/ui/skills/m${at}?tab=tools`);
  }
  await runTool(run, manifests.findIndex(({ name }) => name === 'manifest-script'));
  addresses.push('/ui', '/ui?view=table', '/ui?page=1', '/ui/live');
  run.checks.that(addresses.length >= 120, `only ${addresses.length} addresses`);
  for (const size of ['laptop', 'phone']) {
    // What the browser reports about a file may arrive when the next page is open, so files have a window of their own.
    const [pages, files] = [await run.browser.window({ size }), await run.browser.window({ size })];
    for (const address of addresses) {
      const [path] = [address].flat();
      const isRaw = Array.isArray(address);
      const window = isRaw ? files : pages;
      await window.open(path).catch((error) => {
        // A file that a browser may only save aborts the navigation.
        if (!isRaw || !/Download is starting|ERR_ABORTED/.test(error.message)) throw error;
      });
      // The browser's own view of an image has a style, which the sandbox refuses.
      const faults = window.faults.splice(0).filter((fault) => !isRaw || !/inline style|sandboxed/.test(fault));
      run.checks.equal(faults, [], `${path} on a ${size}`);
      if (!isRaw) {
        run.checks.equal(new URL(window.page.url()).pathname, new URL(path, run.origin).pathname, `${path} navigates nowhere`);
        await window.expectCalm(run.checks, `${path} on a ${size}`);
      }
    }
    await pages.close();
    await files.close();
  }
}
