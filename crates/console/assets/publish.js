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
  if (text.value) check();

  // A finding leads to its line.

  findings.addEventListener('click', (event) => {
    const line = Number(event.target.closest('[data-line]')?.dataset.line);
    if (!line) return;
    const lines = text.value.split('\n');
    const start = lines.slice(0, line - 1).join('\n').length + (line > 1 ? 1 : 0);
    text.focus();
    text.setSelectionRange(start, start + (lines[line - 1]?.length ?? 0));
  });

  // Dropped files are sent with the form, by their paths.

  const readEntry = async (entry, path, files) => {
    if (files.length > 2000) return;
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

  const drop = document.getElementById('drop');
  document.addEventListener('dragover', (event) => {
    event.preventDefault();
    drop.classList.add('over');
  });
  document.addEventListener('dragleave', (event) => {
    if (!event.relatedTarget) drop.classList.remove('over');
  });
  document.addEventListener('drop', async (event) => {
    event.preventDefault();
    drop.classList.remove('over');
    const entries = [...event.dataTransfer.items].map((item) => item.webkitGetAsEntry?.()).filter(Boolean);
    const files = [];
    if (entries.length) for (const entry of entries) await readEntry(entry, '', files);
    else for (const file of event.dataTransfer.files) files.push({ path: file.name, file });
    if (!files.length) return;
    const [only] = files;
    if (files.length === 1 && /\.(md|markdown)$/i.test(only.path)) {
      text.value = await only.file.text();
      dropped = null;
      hint.textContent = `${only.path} is in the document field.`;
      check();
      text.focus();
      return;
    }
    dropped = files;
    hint.textContent = `${files.length} ${files.length === 1 ? 'file' : 'files'} dropped: ${files.slice(0, 5).map((it) => it.path).join(', ')}${files.length > 5 ? ', …' : ''}`;
    form.querySelector('button[type="submit"]').focus();
  });

  form.addEventListener('submit', async (event) => {
    if (!dropped) return;
    event.preventDefault();
    const data = new FormData();
    for (const name of ['token', 'id', 'tier', 'message']) {
      if (form.elements[name]) data.append(name, form.elements[name].value);
    }
    for (const { path, file } of dropped) data.append('files', file, path);
    const response = await fetch(form.action, { method: 'POST', body: data, headers: { Accept: 'text/html' } });
    const page = new DOMParser().parseFromString(await response.text(), 'text/html');
    // The review is a page of its own, without an address: it answers a form.
    document.title = page.title;
    document.getElementById('main').replaceChildren(...page.getElementById('main').childNodes);
    document.getElementById('main').focus();
    scrollTo(0, 0);
  });
}
