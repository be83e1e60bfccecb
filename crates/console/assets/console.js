// Enhancements of every page: copy buttons, relative times, search while typing, keyboard, live updates.
// Every page works without this module; nothing here is needed to read or to send a form.

document.documentElement.classList.add('scripted');

const main = document.getElementById('main');

// Copy buttons.

function showCopyButtons(root) {
  for (const button of root.querySelectorAll('[data-copy]')) button.hidden = false;
}

document.addEventListener('click', async (event) => {
  const button = event.target.closest?.('[data-copy]');
  if (!button) return;
  const text = button.parentElement.querySelector('code').textContent;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    // Without permission, or over plain HTTP on another machine: select the text instead.
    getSelection().selectAllChildren(button.parentElement.querySelector('code'));
    button.textContent = 'Selected';
    return;
  }
  button.textContent = 'Copied';
  setTimeout(() => { button.textContent = 'Copy'; }, 1500);
});

// Menus close when something else is used.

document.addEventListener('click', (event) => {
  for (const menu of document.querySelectorAll('details.menu[open]')) {
    if (!menu.contains(event.target)) menu.open = false;
  }
});
document.addEventListener('keydown', (event) => {
  if (event.key !== 'Escape') return;
  for (const menu of document.querySelectorAll('details.menu[open]')) {
    menu.open = false;
    menu.querySelector('summary').focus();
  }
});

// Relative times: the server wrote them, and they grow older.

const UNITS = [['second', 60], ['minute', 60], ['hour', 24], ['day', 60]];

function distance(seconds) {
  if (seconds >= 0 && seconds < 10) return 'just now';
  let amount = Math.abs(seconds);
  let unit = 'second';
  for (const [name, size] of UNITS) {
    unit = name;
    if (amount < size) break;
    if (name === 'day') return null;
    amount /= size;
  }
  const count = Math.floor(amount);
  const text = `${count} ${unit}${count === 1 ? '' : 's'}`;
  return seconds >= 0 ? `${text} ago` : `in ${text}`;
}

function updateTimes() {
  for (const time of document.querySelectorAll('time[datetime]')) {
    const text = distance((Date.now() - Date.parse(time.dateTime)) / 1000);
    if (text && time.textContent !== text) time.textContent = text;
  }
}
setInterval(updateTimes, 30_000);

// Parts of a page that are fetched again.

let latest = 0;

async function fetchPage(address, options = {}) {
  const number = ++latest;
  const response = await fetch(address, { headers: { Accept: 'text/html' }, ...options });
  const text = await response.text();
  // A later request has overtaken this one.
  if (number !== latest) return null;
  return { response, page: new DOMParser().parseFromString(text, 'text/html') };
}

// Replaces the live parts of this page by those of another one. A part that has the focus in a field is left alone.
function replaceParts(page, mark) {
  for (const part of document.querySelectorAll('[data-live][id]')) {
    const next = page.getElementById(part.id);
    if (!next || next.innerHTML === part.innerHTML) continue;
    const active = document.activeElement;
    if (part.contains(active) && active.matches('input, textarea, select')) continue;
    const focused = part.contains(active) ? active.getAttribute('href') : null;
    const open = [...part.querySelectorAll('details')].map((details) => details.open);
    part.replaceChildren(...[...next.childNodes].map((node) => document.importNode(node, true)));
    part.querySelectorAll('details').forEach((details, at) => { details.open ||= open[at] ?? false; });
    if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    if (mark) {
      part.classList.remove('changed');
      void part.offsetWidth;
      part.classList.add('changed');
    }
    showCopyButtons(part);
  }
}

// Search while typing.

const search = document.querySelector('form[data-search]');
if (search) {
  let timer;
  const update = async () => {
    const query = new URLSearchParams(new FormData(search));
    for (const [name, value] of [...query]) if (!value) query.delete(name);
    const address = query.size ? `/ui?${query}` : '/ui';
    try {
      const found = await fetchPage(address);
      if (!found) return;
      if (found.response.redirected || !found.page.getElementById('results')) return location.reload();
      history.replaceState(null, '', address);
      replaceParts(found.page, false);
    } catch {
      search.requestSubmit();
    }
  };
  search.addEventListener('input', (event) => {
    clearTimeout(timer);
    timer = setTimeout(update, event.target.type === 'search' ? 70 : 0);
  });
  search.addEventListener('submit', (event) => {
    event.preventDefault();
    clearTimeout(timer);
    const first = document.querySelector('#results a.entry');
    if (search.q.value.trim() && first && document.activeElement === search.q) first.click();
    else update();
  });
}

// Keyboard: `/` searches, arrows move between entries.

document.addEventListener('keydown', (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const isField = event.target.matches?.('input, textarea, select, [contenteditable]');
  const field = document.getElementById('q');
  if (event.key === '/' && !isField) {
    event.preventDefault();
    if (field) field.select();
    else location.assign('/ui');
    return;
  }
  if (event.key !== 'ArrowDown' && event.key !== 'ArrowUp') return;
  if (isField && event.target !== field) return;
  const entries = [...document.querySelectorAll('#results a.entry')];
  const at = entries.indexOf(document.activeElement);
  if (at < 0 && event.target !== field) return;
  const next = event.key === 'ArrowDown' ? at + 1 : at - 1;
  if (next < 0 && field) field.focus();
  entries[next]?.focus();
  event.preventDefault();
});

// Live updates. The stream is only open while the page is visible: browsers allow few connections to a server.

if (document.body.hasAttribute('data-events')) {
  const status = document.getElementById('connection');
  let source = null;
  let timer = null;
  let missed = false;
  const refresh = async () => {
    timer = null;
    try {
      const found = await fetchPage(location.href);
      // The session has ended: the server shows who we are now.
      if (found?.response.redirected) return location.reload();
      if (found) replaceParts(found.page, true);
    } catch {
      missed = true;
    }
  };
  const schedule = () => { timer ??= setTimeout(refresh, 40); };
  const open = () => {
    if (source || document.hidden) return;
    source = new EventSource('/ui/events');
    source.addEventListener('open', () => {
      status.textContent = 'Live';
      if (missed) schedule();
      missed = false;
    });
    source.addEventListener('change', schedule);
    source.addEventListener('error', () => {
      status.textContent = 'Reconnecting…';
      missed = true;
      if (source?.readyState === EventSource.CLOSED) {
        source = null;
        // Refused: the session has ended, or the server is busy.
        setTimeout(() => { refresh(); open(); }, 3000);
      }
    });
  };
  const close = () => {
    source?.close();
    source = null;
    missed = true;
  };
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  addEventListener('pagehide', close);
  addEventListener('pageshow', open);
  open();
  const interval = Number(document.body.dataset.events) || 0;
  if (interval) setInterval(() => { if (!document.hidden) schedule(); }, interval);
}

showCopyButtons(main);
