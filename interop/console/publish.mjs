// Publishing by dropping a folder, a zip file and Markdown; findings while typing; the difference before it is confirmed.

export default async function publish(run) {
  const { browser, checks, origin } = run;
  const window = await browser.window();
  const { page } = window;
  await window.open('/ui/publish');
  await page.fill('#text', '---\nname: Bad Name\n---\n# X\n');
  await page.locator('#findings .error').first().waitFor();
  checks.that((await page.locator('#findings').textContent()).includes('line 2'), 'findings name the line');
  await page.locator('#findings button[data-line="2"]').first().focus();
  await page.keyboard.press('Enter');
  checks.equal(await page.evaluate(() => document.activeElement.id), 'text', 'a finding leads to its line');

  await drop(page, [{ path: 'dropped.md', text: '---\nname: dropped\ndescription: Dropped as a file. Use it never.\n---\n# Dropped\n' }]);
  await page.waitForFunction(() => document.getElementById('text').value.includes('# Dropped'));
  await confirm(page, 'dropped');
  checks.that(run.skills('read', 'iii://dropped').includes('# Dropped'), 'a dropped document is published');

  await window.open('/ui/publish');
  await drop(page, [
    { path: 'folder/SKILL.md', text: '---\nname: folder\ndescription: Dropped as files. Use it never.\n---\n# Folder\n' },
    { path: 'folder/scripts/a.sh', text: '#!/bin/sh\n' },
  ]);
  await page.locator('#dropped', { hasText: '2 files dropped' }).waitFor();
  await confirm(page, 'folder');
  checks.that((await page.locator('.meta').first().textContent()).includes('2 files'), 'dropped files are published');

  await window.open('/ui/publish');
  await dropFolder(page, { name: 'tree', entries: [
    { name: 'SKILL.md', text: '---\nname: tree\ndescription: Dropped as a folder. Use it never.\n---\n# Tree\n' },
    { name: 'docs', entries: [{ name: 'a.md', text: '# A\n' }] },
    { name: '.git', entries: [{ name: 'config', text: 'x' }] },
  ] });
  await page.locator('#dropped', { hasText: '2 files dropped: tree/SKILL.md, tree/docs/a.md' }).waitFor();
  await confirm(page, 'tree');
  checks.equal(run.skills('read', 'iii://tree/docs/a.md'), '# A\n', 'a dropped folder is published');

  const zip = [...await (await page.request.get(`${origin}/ui/zip/tree.zip`)).body()];
  await window.open('/ui/publish');
  await page.fill('#id', 'zipped');
  await drop(page, [{ path: 'tree.zip', bytes: zip }]);
  await page.locator('#dropped', { hasText: '1 file dropped: tree.zip' }).waitFor();
  await confirm(page, 'zipped');
  checks.equal(run.skills('read', 'iii://zipped/docs/a.md'), '# A\n', 'a dropped archive is published');

  await window.open('/ui/publish');
  await drop(page, [{ path: 'a.txt', text: 'a' }, { path: 'b.txt', text: 'b' }]);
  await page.locator('#dropped', { hasText: '2 files dropped' }).waitFor();
  await page.getByRole('button', { name: 'Review' }).click();
  await page.locator('#dropped.problem', { hasText: 'no file has the name SKILL.md' }).waitFor();
  await dropFolder(page, { name: 'broken', entries: null });
  await page.locator('#dropped.problem', { hasText: 'cannot be read' }).waitFor();
  checks.that(true, 'a drop that fails says why');

  await page.goto(`${origin}/ui/publish?id=folder&tier=official`);
  const text = await page.inputValue('#text');
  await page.fill('#text', text.replace('# Folder', '# Folder\n\nChanged.'));
  await page.getByRole('button', { name: 'Review' }).click();
  await page.locator('.diff .add').first().waitFor();
  checks.that((await page.locator('.diff').textContent()).includes('Changed.'), 'the difference is shown');
  await window.expectCalm(checks, 'review');
  await window.expectAccessible(checks, 'review');
  await page.getByRole('button', { name: /^Publish/ }).click();
  await page.waitForURL('**/ui/skills/folder**');
  checks.that((await page.locator('.meta').first().textContent()).includes('2 files'), 'the other files are kept');

  await page.getByText('Change', { exact: true }).click();
  await page.fill('#confirm', 'folder');
  await page.getByRole('button', { name: 'Remove' }).click();
  await page.waitForURL('**/ui');
  checks.equal(await page.locator('a.entry', { hasText: 'Folder' }).count(), 0, 'a removed skill is gone');
  await window.expectCalm(checks, 'publishing');
  await window.close();
}

/** Drops files on the page. A folder cannot be made by a script, so its files come with their paths. */
async function drop(page, files) {
  await page.evaluate((files) => {
    const transfer = new DataTransfer();
    for (const { path, text, bytes } of files) transfer.items.add(new File([text ?? new Uint8Array(bytes)], path));
    document.dispatchEvent(new DragEvent('drop', { dataTransfer: transfer, bubbles: true, cancelable: true }));
  }, files);
}

/** Drops a folder: a script cannot make one, so the event has entries that behave like those of a browser. */
async function dropFolder(page, folder) {
  await page.evaluate((folder) => {
    const entryOf = ({ name, text, entries }) => (text === undefined ? {
      name, isDirectory: true, isFile: false,
      createReader: () => {
        let left = entries;
        return { readEntries: (resolve, reject) => {
          if (!entries) reject(new Error('the folder is gone'));
          else resolve(left.map(entryOf));
          left = [];
        } };
      },
    } : { name, isFile: true, isDirectory: false, file: (resolve) => resolve(new File([text], name)) });
    const event = new DragEvent('drop', { bubbles: true, cancelable: true });
    const items = [{ webkitGetAsEntry: () => entryOf(folder) }];
    Object.defineProperty(event, 'dataTransfer', { value: { types: ['Files'], items, files: [] } });
    document.dispatchEvent(event);
  }, folder);
}

async function confirm(page, id) {
  await page.getByRole('button', { name: 'Review' }).click();
  await page.getByRole('button', { name: /^Publish/ }).click();
  await page.waitForURL(`**/ui/skills/${id}**`);
}
