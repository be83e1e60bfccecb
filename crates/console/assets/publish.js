// Enhancements of the page that publishes: findings while typing, and dropping a folder, a zip file or Markdown.

const form = document.getElementById('publish');
if (form) {
  const text = form.elements.text;
  const findings = document.getElementById('findings');
  const hint = document.getElementById('dropped');
  let timer;
  let number = 0;
  let dropped = null;

  // Findings while typing.

  const check = async () => {
    const current = ++number;
    if (!text.value.trim()) {
      findings.replaceChildren();
      return;
    }
    const body = new URLSearchParams({ token: form.elements.token.value, id: form.elements.id.value, text: text.value });
    try {
      const response = await fetch('/ui/publish/check', { method: 'POST', body, headers: { 'X-Fragment': '1' } });
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      if (current === number) findings.replaceChildren(...page.body.childNodes);
    } catch {
      // The review validates again.
    }
  };
  const schedule = () => {
    clearTimeout(timer);
    timer = setTimeout(check, 250);
  };
  text.addEventListener('input', schedule);
  form.elements.id.addEventListener('input', schedule);
  // The server has validated what it sent.
  if (text.value !== text.defaultValue || (text.value && !findings.firstChild)) check();

  // A finding leads to its line.

  findings.addEventListener('click', (event) => {
    const line = Number(event.target.closest('button[data-line]')?.dataset.line);
    if (!line) return;
    const lines = text.value.split('\n');
    const start = lines.slice(0, line - 1).join('\n').length + (line > 1 ? 1 : 0);
    text.focus();
    text.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  });

  // Dropped files are sent with the form, by their paths.

  const MAX_FILES = 2000;
  const readEntry = async (entry, path, files) => {
    if (files.length >= MAX_FILES) throw new Error(`there are more than ${MAX_FILES} files`);
    if (entry.isFile) {
      const file = await new Promise((resolve, reject) => entry.file(resolve, reject));
      files.push({ path: path + entry.name, file });
    } else if (entry.isDirectory && entry.name !== '.git' && entry.name !== 'node_modules') {
      const reader = entry.createReader();
      for (;;) {
        const entries = await new Promise((resolve, reject) => reader.readEntries(resolve, reject));
        if (!entries.length) break;
        for (const inner of entries) await readEntry(inner, `${path}${entry.name}/`, files);
      }
    }
  };

  const readDrop = async (transfer) => {
    // The browser forgets the items with the event, so the entries are taken first.
    const entries = [...transfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = [];
    if (entries.length) for (const entry of entries) await readEntry(entry, '', files);
    else for (const file of transfer.files) files.push({ path: file.name, file });
    if (!files.length) throw new Error('it has no files');
    return files;
  };

  const say = (sentence, isError = false) => {
    hint.textContent = sentence;
    hint.classList.toggle('problem', isError);
  };

  const drop = document.getElementById('drop');
  // Text that is dragged into a field is left to the browser.
  const hasFiles = (event) => event.dataTransfer?.types.includes('Files');
  document.addEventListener('dragover', (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    drop.classList.add('over');
  });
  document.addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) drop.classList.remove('over');
  });
  document.addEventListener('drop', async (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    drop.classList.remove('over');
    try {
      const files = await readDrop(event.dataTransfer);
      const [only] = files;
      if (files.length === 1 && /\.(md|markdown)$/i.test(only.path)) {
        text.value = await only.file.text();
        dropped = null;
        say(`${only.path} is in the document field.`);
        check();
        text.focus();
        return;
      }
      dropped = files;
      const names = files.slice(0, 5).map((it) => it.path).join(', ');
      say(`${files.length} ${files.length === 1 ? 'file' : 'files'} dropped: ${names}${files.length > 5 ? ', …' : ''}`);
      form.querySelector('button[type="submit"]').focus();
    } catch (error) {
      dropped = null;
      say(`What was dropped cannot be read: ${error.message}. Choose it below, or drop it again.`, true);
    }
  });
  for (const field of form.querySelectorAll('input[type="file"]')) {
    field.addEventListener('change', () => { dropped = null; });
  }

  form.addEventListener('submit', async (event) => {
    if (!dropped) return;
    event.preventDefault();
    const data = new FormData(form);
    for (const field of form.querySelectorAll('input[type="file"]')) data.delete(field.name);
    for (const { path, file } of dropped) data.append('files', file, path);
    try {
      const response = await fetch(form.action, { method: 'POST', body: data, headers: { Accept: 'text/html' } });
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      if (!response.ok) {
        const reasons = [...page.querySelectorAll('.notice.error p')].map((it) => it.textContent);
        throw new Error(reasons.slice(0, 2).join('. ') || `the server answered ${response.status}`);
      }
      // The review is a page of its own, without an address: it answers a form.
      document.title = page.title;
      document.getElementById('main').replaceChildren(...page.getElementById('main').childNodes);
      document.getElementById('main').focus();
      scrollTo(0, 0);
    } catch (error) {
      say(`The files were not reviewed: ${error.message}`, true);
    }
  });
}
