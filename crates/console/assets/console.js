// Enhancements of every page: copy buttons, relative times, search while typing, keyboard, live updates.
// Every page works without this module; nothing here is needed to read or to send a form.

// Copy buttons.

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

async function fetchPage(address) {
  const response = await fetch(address, { headers: { Accept: 'text/html' } });
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  return { response, page };
}

// Whether another page is needed: the session has ended or is that of another person, or the first skill has come.
function isOtherPage({ response, page }) {
  const person = (root) => root.querySelector('.person')?.textContent;
  const hasSearch = (root) => root.querySelector('form[data-search]') !== null;
  return response.redirected || person(page) !== person(document) || hasSearch(page) !== hasSearch(document);
}

// Whether a control has another value than the page gave it: something was typed or chosen.
function isChanged(control) {
  if (control.matches('[type="hidden"]')) return false;
  if (control.matches('select')) {
    const options = [...control.options];
    const selected = options.findLastIndex((option) => option.defaultSelected);
    return control.selectedIndex !== Math.max(selected, 0);
  }
  return control.value !== control.defaultValue || control.checked !== control.defaultChecked;
}

const CONTROLS = 'input, textarea, select';
// Whether a part was left as it is because of what is being typed in it.
let isBehind = false;

// Replaces the live parts of this page by those of another one. A part in which something is being typed stays.
function replaceParts(page, mark) {
  isBehind = false;
  for (const part of document.querySelectorAll('[data-live][id]')) {
    const next = page.getElementById(part.id);
    if (!next || next.innerHTML === part.innerHTML) continue;
    const active = part.contains(document.activeElement) ? document.activeElement : null;
    if (active?.matches(CONTROLS) || [...part.querySelectorAll(CONTROLS)].some(isChanged)) {
      isBehind = true;
      continue;
    }
    const focused = active?.getAttribute('href');
    const open = [...part.querySelectorAll('details')].map((details) => details.open);
    part.replaceChildren(...[...next.childNodes].map((node) => document.importNode(node, true)));
    part.querySelectorAll('details').forEach((details, at) => { details.open ||= open[at] ?? false; });
    if (focused) part.querySelector(`a[href="${CSS.escape(focused)}"]`)?.focus();
    if (mark) {
      part.classList.remove('changed');
      void part.offsetWidth;
      part.classList.add('changed');
    }
  }
}

// Search while typing.

const search = document.querySelector('form[data-search]');
// Address whose results are shown, and the number of the latest request for results.
let shown = location.pathname + location.search;
let latest = 0;

function searchAddress() {
  const query = new URLSearchParams(new FormData(search));
  for (const [name, value] of [...query]) if (!value) query.delete(name);
  // The form has no page: the address keeps it while nothing else is different.
  const current = new URLSearchParams(location.search);
  const page = current.get('page');
  current.delete('page');
  query.sort();
  current.sort();
  if (page && `${query}` === `${current}`) query.set('page', page);
  return query.size ? `/ui?${query}` : '/ui';
}

// Shows the results of the form; returns whether they are shown.
async function updateResults(mark) {
  const number = ++latest;
  const address = searchAddress();
  const found = await fetchPage(address);
  // A later request has overtaken this one.
  if (number !== latest) return false;
  if (isOtherPage(found)) {
    location.reload();
    return false;
  }
  shown = address;
  if (address !== location.pathname + location.search) history.replaceState(null, '', address);
  replaceParts(found.page, mark);
  return true;
}

if (search) {
  let timer;
  const update = () => updateResults(false).catch(() => search.submit());
  search.addEventListener('input', (event) => {
    clearTimeout(timer);
    timer = setTimeout(update, event.target.type === 'search' ? 70 : 0);
  });
  search.addEventListener('submit', async (event) => {
    event.preventDefault();
    clearTimeout(timer);
    const isCurrent = shown === searchAddress() || await update();
    if (!isCurrent || !search.q.value.trim() || document.activeElement !== search.q) return;
    document.querySelector('#results a.entry')?.click();
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
    else location.assign('/ui#q');
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

if (location.hash === '#q' && search) {
  history.replaceState(null, '', '/ui');
  search.q.focus();
}

// Runs an action soon after it is asked for: one at a time, with a pause between two, and once more for what came meanwhile.
const DELAY = 30;
const PAUSE = 150;

function coalesced(action) {
  let timer = null;
  let isRunning = false;
  let again = false;
  let last = -PAUSE;
  const ask = () => {
    if (isRunning) {
      again = true;
      return;
    }
    timer ??= setTimeout(async () => {
      timer = null;
      isRunning = true;
      try {
        await action();
      } finally {
        isRunning = false;
        last = performance.now();
        if (again) {
          again = false;
          ask();
        }
      }
    }, Math.max(DELAY, last + PAUSE - performance.now()));
  };
  return ask;
}

// Live updates. The stream is only open while the page is visible: browsers allow few connections to a server.

if (document.body.hasAttribute('data-events')) {
  const status = document.getElementById('connection');
  // Pause before a stream that was refused is opened again; it doubles until one is open.
  const FIRST_PAUSE = 3000;
  const MAX_PAUSE = 60_000;
  let source = null;
  let missed = false;
  let pause = FIRST_PAUSE;
  let timer = null;
  const refresh = coalesced(async () => {
    try {
      if (search) {
        await updateResults(true);
        return;
      }
      const found = await fetchPage(location.href);
      if (isOtherPage(found)) location.reload();
      else replaceParts(found.page, true);
    } catch {
      missed = true;
    }
  });
  const open = () => {
    if (source || document.hidden) return;
    clearTimeout(timer);
    source = new EventSource('/ui/events');
    source.addEventListener('open', () => {
      status.textContent = 'Live';
      pause = FIRST_PAUSE;
      if (missed) refresh();
      missed = false;
    });
    source.addEventListener('change', refresh);
    source.addEventListener('error', () => {
      status.textContent = 'Reconnecting…';
      missed = true;
      if (source?.readyState === EventSource.CLOSED) {
        source = null;
        // Refused: the session has ended, or the server is busy.
        refresh();
        timer = setTimeout(open, pause);
        pause = Math.min(2 * pause, MAX_PAUSE);
      }
    });
    // Another page of this person has the stream. To open one again at once would take it from a third page.
    source.addEventListener('replaced', () => {
      close();
      status.textContent = 'Not live: too many pages are open';
    });
  };
  const close = () => {
    clearTimeout(timer);
    source?.close();
    source = null;
    missed = true;
  };
  document.addEventListener('visibilitychange', () => (document.hidden ? close() : open()));
  addEventListener('pagehide', close);
  addEventListener('pageshow', open);
  addEventListener('focus', open);
  document.addEventListener('focusout', () => { if (isBehind) refresh(); });
  open();
  const interval = Number(document.body.dataset.events) || 0;
  if (interval) setInterval(() => { if (!document.hidden) refresh(); }, interval);
}
