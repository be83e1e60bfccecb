// One iii worker on the Node SDK, speaking the whole contract to a running server.
//
//     client.mjs write URL    register everything, read it back, watch the changes
//     client.mjs read URL     after a restart: what was written is still there; remove it
//     client.mjs stay URL     live through a restart on one connection object
//
// The last line of standard output is `checks N`. The first check that fails ends the run.
// The same file runs on every SDK version: it uses only calls they share.

import assert from 'node:assert/strict'
import { once } from 'node:events'
import { setTimeout as pause } from 'node:timers/promises'
import { registerWorker } from 'iii-sdk'

const DEADLINE_MS = 20_000
const SKILL = 'node-skill'
const SPARE = 'node-spare'
const PROMPT = 'node-greet'
const CHAT = 'node-chat'
const SCOPE = 'node-scope'

// Everything a careless store would change: CRLF, non-ASCII, a tab, trailing blanks, no final newline.
const TITLE = 'Intérop 漢字 🎈'
const DESCRIPTION = 'First line, second line.'
const BODY = `# ${TITLE}\r\n\r\nFirst line,\r\nsecond line.\r\n\r\n\`\`\`sh\n# not a title\n\`\`\`\n\ttab and blanks  `
const GUIDE = '# Guide\n\nLong-form text.\n'
const PLAIN = 'Just a string.\n'
const FACTS = { answer: 42, nested: { list: [1, 2], text: 'é' } }
const CHAT_MESSAGES = [
  { role: 'user', content: { type: 'text', text: 'Ping' } },
  { role: 'assistant', content: { type: 'text', text: 'Pong' } },
]
const ARGUMENTS = [{ name: 'who', description: 'Who to greet', required: true }, { name: 'tone' }]

const [phase, url] = process.argv.slice(2)
const worker = registerWorker(url)
const skillEvents = []
const promptEvents = []
let checks = 0

// Checks: each counts if it passes and throws otherwise.

function that(held, what) {
  assert.ok(held, what)
  checks += 1
}

function equal(got, wanted, what) {
  assert.deepEqual(got, wanted, `${what}:\n  wanted ${JSON.stringify(wanted)}\n  got    ${JSON.stringify(got)}`)
  checks += 1
}

function keys(value, required, optional, what) {
  const got = Object.keys(value)
  const held = required.every((key) => got.includes(key)) && got.every((key) => [...required, ...optional].includes(key))
  that(held, `${what}: keys ${got}, wanted ${required} and perhaps ${optional}`)
}

async function fails(promise, words, what) {
  const error = await promise.then(
    (result) => assert.fail(`${what}: wanted an error with "${words}", got ${JSON.stringify(result)}`),
    (error) => error,
  )
  that(error.message.includes(words), `${what}: wanted an error with "${words}", got ${error.message}`)
}

// The contract.

const call = (function_id, payload = {}) => worker.trigger({ function_id, payload, timeoutMs: 10_000 })

async function read(uri) {
  const envelope = await call('skills::resources-read', { uri })
  keys(envelope, ['contents'], [], `read ${uri}`)
  equal(envelope.contents.length, 1, `read ${uri}: contents`)
  const [content] = envelope.contents
  keys(content, ['uri', 'mimeType', 'text'], [], `read ${uri}: content`)
  equal(content.uri, uri, `read ${uri}: uri`)
  return [content.mimeType, content.text]
}

async function render(name, args) {
  const envelope = await call('prompts::mcp-get', args ? { name, arguments: args } : { name })
  keys(envelope, ['messages'], ['description'], `render ${name}`)
  return envelope.messages
}

async function registerSkill(id = SKILL, skill = BODY) {
  const answer = await call('skills::register', { id, skill })
  keys(answer, ['id', 'registered_at'], [], 'skills::register')
  equal(answer.id, id, 'skills::register: id')
  return instant(answer.registered_at)
}

async function registerPrompt(name = PROMPT, function_id = 'node::greet', args = ARGUMENTS) {
  const answer = await call('prompts::register', { name, description: 'Greets.', arguments: args, function_id })
  keys(answer, ['name', 'registered_at'], [], 'prompts::register')
  equal(answer.name, name, 'prompts::register: name')
  return instant(answer.registered_at)
}

async function unregister(kind, target, removed) {
  equal(await call(`${kind}::unregister`, target), { ...target, removed }, `${kind}::unregister`)
}

function registerFunctions() {
  worker.registerFunction('node::guide', async () => ({ content: GUIDE }))
  worker.registerFunction('node::plain', async () => PLAIN)
  worker.registerFunction('node::facts', async () => FACTS)
  worker.registerFunction('node::broken', async () => {
    throw new Error('deliberately broken')
  })
  worker.registerFunction('node::greet', async ({ who = 'world' }) => ({ content: `Greet ${who}.` }))
  worker.registerFunction('node::chat', async () => ({ messages: CHAT_MESSAGES }))
}

function subscribe() {
  // A bus adds the caller to every object it routes; the rest is the payload.
  worker.registerFunction('node::on_skill', async ({ _caller_worker_id, ...event }) => void skillEvents.push(event))
  worker.registerFunction('node::on_prompt', async ({ _caller_worker_id, ...event }) => void promptEvents.push(event))
  worker.registerTrigger({ type: 'skills::on-change', function_id: 'node::on_skill', config: {} })
  worker.registerTrigger({ type: 'prompts::on-change', function_id: 'node::on_prompt', config: {} })
}

// The phases.

async function write() {
  registerFunctions()
  subscribe()
  await checkRegistration()
  await checkListings()
  await checkEnvelopes()
  await checkReads()
  await checkPrompts()
  await checkErrors()
  await checkRemoval()
  await checkEvents()
  await checkState()
  await checkIntrospection()
  checkNoLateEvents()
}

async function readAgain() {
  equal(await read(`iii://${SKILL}`), ['text/markdown', BODY], 'body after the restart')
  const { prompts } = await call('prompts::list')
  equal(prompts.map((row) => row.name), [PROMPT], 'prompts after the restart')
  equal(await call('state::get', { scope: SCOPE, key: 'kept' }), { n: 1 }, 'state after the restart')
  equal(await call('state::delete', { scope: SCOPE, key: 'kept' }), { n: 1 }, 'state::delete')
  await fails(read(`iii://${SKILL}/node::guide`), 'node::guide', 'section of a worker that is gone')

  registerFunctions()
  await checkSections()
  equal(await render(PROMPT, { who: 'Ada' }), userSays('Greet Ada.'), 'prompt after the restart')

  await unregister('skills', { id: SKILL }, true)
  await unregister('prompts', { name: PROMPT }, true)
  equal(await call('skills::list'), { skills: [] }, 'skills at the end')
  equal(await call('prompts::list'), { prompts: [] }, 'prompts at the end')
  await fails(read(`iii://${SKILL}`), 'not found', 'a removed skill')
}

async function stay() {
  registerFunctions()
  subscribe()
  await registerSkill()
  equal(await eventsWhen(skillEvents, 1), [registered({ id: SKILL })], 'event before the restart')
  console.log('ready')
  await once(process.stdin, 'data')
  process.stdin.destroy()

  const section = await eventually(() => read(`iii://${SKILL}/node::guide`))
  equal(section, ['text/markdown', GUIDE], 'section after reconnecting')
  await registerSkill()
  await unregister('skills', { id: SKILL }, true)
  const wanted = [registered({ id: SKILL }), registered({ id: SKILL }), unregistered({ id: SKILL })]
  equal(await eventsWhen(skillEvents, wanted.length), wanted, 'events after reconnecting')
}

// The parts of `write`.

async function checkRegistration() {
  let [first, second] = [await registerSkill(), await registerSkill()]
  that(second > first, `skills::register again: ${second} is not later than ${first}`)
  ;[first, second] = [await registerPrompt(), await registerPrompt()]
  that(second > first, `prompts::register again: ${second} is not later than ${first}`)
  await registerSkill(SPARE, '# Spare\n\nGone soon.\n')
  await registerPrompt(CHAT, 'node::chat', [])
}

async function checkListings() {
  const { skills } = await call('skills::list')
  equal(skills.map((row) => row.id), [SKILL, SPARE], 'skills::list')
  keys(skills[0], ['id', 'bytes', 'registered_at'], [], 'skills::list row')
  equal(skills[0].bytes, Buffer.byteLength(BODY), 'skills::list bytes')

  const { prompts } = await call('prompts::list')
  equal(prompts.map((row) => row.name), [CHAT, PROMPT], 'prompts::list')
  keys(prompts[1], ['name', 'function_id', 'arguments', 'registered_at'], [], 'prompts::list row')
  equal([prompts[1].function_id, prompts[1].arguments], ['node::greet', 2], 'prompts::list row')
}

async function checkEnvelopes() {
  const listing = await call('skills::resources-list')
  keys(listing, ['resources'], [], 'resources-list')
  const uris = listing.resources.map((resource) => resource.uri).sort()
  equal(uris, [`iii://${SKILL}`, `iii://${SPARE}`, 'iii://skills'], 'resources-list')
  for (const resource of listing.resources) {
    keys(resource, ['uri', 'name', 'mimeType'], ['title', 'description', 'size'], 'resource')
    equal(resource.mimeType, 'text/markdown', 'resource mimeType')
  }
  const resource = listing.resources.find(({ uri }) => uri === `iii://${SKILL}`)
  equal(resource.title ?? TITLE, TITLE, 'resource title')
  equal(resource.description ?? DESCRIPTION, DESCRIPTION, 'resource description')
  equal(resource.size ?? Buffer.byteLength(BODY), Buffer.byteLength(BODY), 'resource size')

  const templates = await call('skills::resources-templates')
  keys(templates, ['resourceTemplates'], [], 'resources-templates')
  that(templates.resourceTemplates.length > 0, 'resources-templates is empty')
  for (const template of templates.resourceTemplates) {
    keys(template, ['uriTemplate', 'name', 'description', 'mimeType'], [], 'template')
    that(template.uriTemplate.startsWith('iii://{'), `template ${template.uriTemplate}`)
  }

  const listed = await call('prompts::mcp-list')
  keys(listed, ['prompts'], [], 'mcp-list')
  const wanted = [
    { name: 'who', description: 'Who to greet', required: true },
    { name: 'tone', required: false },
  ]
  const prompt = listed.prompts.find(({ name }) => name === PROMPT)
  equal(prompt, { name: PROMPT, description: 'Greets.', arguments: wanted }, 'mcp-list')
}

async function checkReads() {
  const [mime, index] = await read('iii://skills')
  equal(mime, 'text/markdown', 'index mimeType')
  for (const words of [TITLE, DESCRIPTION, `iii://${SKILL}`, `iii://${SPARE}`]) {
    that(index.includes(words), `the index lacks "${words}":\n${index}`)
  }
  equal(await read(`iii://${SKILL}`), ['text/markdown', BODY], 'body')
  await checkSections()
}

async function checkSections() {
  const pretty = JSON.stringify(FACTS, null, 2)
  equal(await read(`iii://${SKILL}/node::guide`), ['text/markdown', GUIDE], 'section {content}')
  equal(await read(`iii://${SKILL}/node::plain`), ['text/markdown', PLAIN], 'section string')
  equal(await read(`iii://${SKILL}/node::facts`), ['application/json', pretty], 'section object')
}

async function checkPrompts() {
  equal(await render(PROMPT, { who: 'Ada' }), userSays('Greet Ada.'), 'mcp-get')
  equal(await render(PROMPT), userSays('Greet world.'), 'mcp-get without arguments')
  equal(await render(CHAT), CHAT_MESSAGES, 'mcp-get of {messages}')
}

async function checkErrors() {
  const skill = (fields) => call('skills::register', { id: 'x', skill: 'x', ...fields })
  const prompt = (fields) => call('prompts::register', { name: 'x', description: 'd', function_id: 'f', ...fields })
  await fails(skill({ id: 'No Good' }), 'lowercase', 'invalid id')
  await fails(skill({ skill: '' }), 'skill must be non-empty', 'empty body')
  await fails(prompt({ name: 'No Good' }), 'lowercase', 'invalid name')
  await fails(prompt({ description: ' ' }), 'description must be non-empty', 'blank description')
  await fails(prompt({ arguments: [{ name: 'a' }, { name: 'a' }] }), 'duplicate argument name', 'argument twice')
  await fails(read('iii://node-nobody'), 'not found', 'unknown skill')
  await fails(render('node-nobody'), 'not found', 'unknown prompt')
  await fails(read(`iii://${SKILL}/state::get`), 'internal namespace', 'reserved section')
  await fails(read(`iii://${SKILL}/node::absent`), 'node::absent', 'section nobody serves')
  await fails(read(`iii://${SKILL}/node::broken`), 'deliberately broken', 'section that throws')
}

async function checkRemoval() {
  await unregister('skills', { id: SPARE }, true)
  await unregister('skills', { id: SPARE }, false)
  await unregister('prompts', { name: CHAT }, true)
  await unregister('prompts', { name: CHAT }, false)
}

const wantedSkillEvents = [
  registered({ id: SKILL }),
  registered({ id: SKILL }),
  registered({ id: SPARE }),
  unregistered({ id: SPARE }),
  registered({ id: SKILL }),
]
const wantedPromptEvents = [
  registered({ name: PROMPT }),
  registered({ name: PROMPT }),
  registered({ name: CHAT }),
  unregistered({ name: CHAT }),
  registered({ name: PROMPT }),
]

async function checkEvents() {
  // One more change of each kind: events arrive in order, so all earlier ones have arrived with it.
  await registerSkill()
  await registerPrompt()
  equal(await eventsWhen(skillEvents, 5), wantedSkillEvents, 'skills::on-change')
  equal(await eventsWhen(promptEvents, 5), wantedPromptEvents, 'prompts::on-change')
}

function checkNoLateEvents() {
  equal(skillEvents, wantedSkillEvents, 'skills::on-change, later')
  equal(promptEvents, wantedPromptEvents, 'prompts::on-change, later')
}

async function checkState() {
  const item = { scope: SCOPE, key: 'k' }
  equal(await call('state::get', item), null, 'state::get of nothing')
  equal(await call('state::set', { ...item, value: [1] }), { old_value: null, new_value: [1] }, 'state::set')
  equal(await call('state::set', { ...item, value: 'two' }), { old_value: [1], new_value: 'two' }, 'state::set again')
  equal(await call('state::get', item), 'two', 'state::get')
  equal(await call('state::list', { scope: SCOPE }), ['two'], 'state::list')
  equal(await call('state::delete', item), 'two', 'state::delete')
  equal(await call('state::list', { scope: SCOPE }), [], 'state::list of nothing')
  await call('state::set', { scope: SCOPE, key: 'kept', value: { n: 1 } })
}

async function checkIntrospection() {
  const { functions } = await call('engine::functions::list')
  const row = (id) => functions.find(({ function_id }) => function_id === id)
  that(row('node::guide'), 'engine::functions::list lacks node::guide')
  that(row('skills::register'), 'engine::functions::list lacks skills::register')
  equal(row('skills::register').request_format.title, 'RegisterSkillInput', 'schema of skills::register')
}

// Helpers.

function userSays(text) {
  return [{ role: 'user', content: { type: 'text', text } }]
}

function registered(target) {
  return { op: 'register', ...target }
}

function unregistered(target) {
  return { op: 'unregister', ...target }
}

/** Converts an RFC 3339 timestamp in UTC to a sortable string with nanoseconds. */
function instant(text) {
  const match = /^(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(?:\.(\d{1,9}))?(?:Z|\+00:00)$/.exec(text)
  assert.ok(match, `not an RFC 3339 instant in UTC: ${text}`)
  return match[1] + (match[2] ?? '').padEnd(9, '0')
}

/** Returns the events once there are `count` of them, or those received within the deadline. */
async function eventsWhen(events, count) {
  const end = performance.now() + DEADLINE_MS
  while (events.length < count && performance.now() < end) await pause(5)
  return [...events]
}

/** Returns the first result of `attempt` that is not an error, within the deadline. */
async function eventually(attempt) {
  const end = performance.now() + DEADLINE_MS
  for (;;) {
    try {
      return await attempt()
    } catch (error) {
      if (performance.now() > end) throw error
      await pause(50)
    }
  }
}

try {
  await { write, read: readAgain, stay }[phase]()
} finally {
  await worker.shutdown()
}
console.log(`checks ${checks}`)
