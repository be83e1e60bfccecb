// The TypeScript SDK of ACP drives `skills acp` over stdio; every received line is validated against its JSON schema.
//
//     client.mjs SKILLS-BINARY BUS-URL default|opt-in|always
//
// Its last line of output is `checks N`.

import assert from 'node:assert/strict'
import { execFileSync, spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable, Writable } from 'node:stream'

import { client, methods, ndJsonStream, PROTOCOL_VERSION } from '@agentclientprotocol/sdk'
import Ajv from 'ajv/dist/2020.js'

const [binary, bus, mode] = process.argv.slice(2)
const DEADLINE_MS = 20_000
const SKILLS = 'available_skills_update'

let checks = 0

function that(held, what) {
  assert.ok(held, what)
  checks += 1
}

function equal(got, wanted, what) {
  assert.deepEqual(got, wanted, what)
  checks += 1
}

// The released schema of the package, which does not include the skill list.

const place = 'node_modules/@agentclientprotocol/sdk/schema/v1/schema.json'
const schema = JSON.parse(readFileSync(new URL(place, import.meta.url)))
const ajv = new Ajv({ strict: false, validateFormats: false })
ajv.addSchema(schema, 'acp')

const validators = new Map()

function validate(type, value, line) {
  if (!validators.has(type)) validators.set(type, ajv.compile({ $ref: `acp#/$defs/${type}` }))
  const holds = validators.get(type)
  that(holds(value), `not a ${type}: ${line}\n${ajv.errorsText(holds.errors)}`)
}

const RESULTS = {
  [methods.agent.initialize]: 'InitializeResponse',
  [methods.agent.session.new]: 'NewSessionResponse',
  [methods.agent.session.prompt]: 'PromptResponse',
  [methods.agent.session.close]: 'CloseSessionResponse',
}

const asked = new Map()
const updates = []
let look = () => {}

/** Validates a line of the agent. */
function inspect(line) {
  const message = JSON.parse(line)
  equal(message.jsonrpc, '2.0', line)
  if (message.method === undefined) {
    that(asked.has(message.id), `an answer to nothing: ${line}`)
    if (message.error) validate('Error', message.error, line)
    else validate(RESULTS[asked.get(message.id)], message.result, line)
    asked.delete(message.id)
    return
  }
  equal(message.method, 'session/update', line)
  validate('AgentNotification', message, line)
  updates.push(message.params)
  if (message.params.update.sessionUpdate === SKILLS) {
    that(mode !== 'default', `not asked for: ${line}`)
    equal(Object.keys(message.params).sort(), ['sessionId', 'update'], line)
    checkSkills(message.params.update.availableSkills)
  } else {
    validate('SessionNotification', message.params, line)
  }
  look()
}

/** Checks the rules of the proposal, which are in no schema. */
function checkSkills(skills) {
  for (const { name, description, license, compatibility, allowedTools, _meta, ...rest } of skills) {
    that(/^[a-z0-9]+(-[a-z0-9]+)*$/.test(name) && name.length <= 64, `name ${name}`)
    that(description.length >= 1 && [...description].length <= 1024, `description of ${name}`)
    that(license === undefined || typeof license === 'string', `license of ${name}`)
    that(compatibility === undefined || [...compatibility].length <= 500, `compatibility of ${name}`)
    that(allowedTools === undefined || allowedTools.every((tool) => typeof tool === 'string'), `tools of ${name}`)
    that(typeof _meta === 'object', `_meta of ${name}`)
    equal(rest, {}, `more fields of ${name}`)
  }
}

/** Returns the first matching update, received or future. */
function update(fits, what) {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`no ${what} within ${DEADLINE_MS} ms`)), DEADLINE_MS)
    look = () => {
      const found = updates.find((params) => fits(params.update))
      if (!found) return
      clearTimeout(timer)
      look = () => {}
      checks += 1
      resolve(found.update)
    }
    look()
  })
}

const named = (list, name) => list?.find((item) => item.name === name)
const commands = (name) => (update) => Boolean(named(update.availableCommands, name))
const skills = (name) => (update) => Boolean(named(update.availableSkills, name))

// The agent, with its lines inspected on the way to the SDK and requests on the way back.

const agent = spawn(binary, ['acp', '--url', bus, ...(mode === 'always' ? ['--skills-update=always'] : [])], {
  stdio: ['pipe', 'pipe', 'inherit'],
})
const ended = new Promise((resolve) => agent.once('exit', resolve))

function lines(inspect) {
  const decoder = new TextDecoder()
  let rest = ''
  return new TransformStream({
    transform(bytes, controller) {
      const parts = (rest + decoder.decode(bytes, { stream: true })).split('\n')
      rest = parts.pop()
      for (const line of parts) inspect(line)
      controller.enqueue(bytes)
    },
    flush() {
      equal(rest, '', 'a line without an end')
    },
  })
}

function outgoing(line) {
  const message = JSON.parse(line)
  if (message.id !== undefined && message.method) asked.set(message.id, message.method)
}

const out = lines(outgoing)
// The pipe ends with the agent or when its input is closed below; neither is an error.
out.readable.pipeTo(Writable.toWeb(agent.stdin)).catch(() => {})
const stream = ndJsonStream(out.writable, Readable.toWeb(agent.stdout).pipeThrough(lines(inspect)))

async function talk(ctx) {
  const _meta = { 'agentskills.io': { availableSkillsUpdate: true } }
  const greeting = await ctx.request(methods.agent.initialize, {
    protocolVersion: PROTOCOL_VERSION,
    clientCapabilities: mode === 'opt-in' ? { _meta } : {},
  })
  equal(greeting.protocolVersion, PROTOCOL_VERSION, 'protocolVersion')
  equal(greeting.agentInfo.name, 'skills', 'agentInfo')
  equal(greeting.agentCapabilities._meta['agentskills.io'].availableSkillsUpdate, true, 'advertisement')

  const session = await ctx.buildSession('/').start()
  const listed = await update(commands('greet'), 'list of commands')
  const names = listed.availableCommands.map(({ name }) => name)
  equal(names, ['greet', 'long', 'pdf'], 'commands')
  equal(named(listed.availableCommands, 'greet').input.hint, '<who> [tone]', 'hint')
  equal(named(listed.availableCommands, 'pdf')._meta['agentskills.io/skill'].license, 'MIT', 'metadata')

  equal(await turn(session, '/greet Ada'), 'Greet Ada.', 'a prompt')
  equal(await turn(session, '/greet who="Ada Lovelace"'), 'Greet Ada Lovelace.', 'a named argument')
  that((await turn(session, '/greet')).includes('`who`'), 'a missing argument')
  equal(await turn(session, '/pdf'), '# PDF\n\nRead it.\n', 'a skill')
  that((await turn(session, 'hello')).includes('`/greet`'), 'other text')
  that((await turn(session, '/gret')).includes('`/greet`'), 'a near name')
  that((await turn(session, '/long')).length > 200_000, 'a long skill')

  add('later', '# Later\n\nCame while the session was open.\n')
  await update(commands('later'), 'command that came later')
  if (mode !== 'default') {
    const list = await update(skills('later'), 'skill that came later')
    equal(named(list.availableSkills, 'pdf').allowedTools, ['Bash(pdftotext:*)', 'Read'], 'tools')
    that(!named(list.availableSkills, 'not_a_name'), 'a name that no skill may have')
  }
  equal(await turn(session, '/later'), '# Later\n\nCame while the session was open.\n', 'the later skill')

  const stopped = session.prompt('/long')
  await ctx.notify(methods.agent.session.cancel, { sessionId: session.sessionId })
  that(['cancelled', 'end_turn'].includes((await stopped).stopReason), 'a cancelled turn')
  await ctx.request(methods.agent.session.close, { sessionId: session.sessionId })
  const gone = await ctx.request(methods.agent.session.prompt, { sessionId: session.sessionId, prompt: [] }).then(
    () => assert.fail('a closed session answered'),
    (error) => error,
  )
  equal(gone.code, -32002, 'a closed session')
  session.dispose()
}

async function turn(session, text) {
  const done = session.prompt(text)
  const said = await session.readText()
  equal((await done).stopReason, 'end_turn', text)
  return said
}

function add(id, body) {
  const folder = mkdtempSync(join(tmpdir(), 'acp-'))
  writeFileSync(join(folder, `${id}.md`), body)
  execFileSync(binary, ['add', join(folder, `${id}.md`), '--url', bus])
  rmSync(folder, { recursive: true })
}

try {
  await client({ name: 'interop' }).connectWith(stream, talk)
  agent.stdin.end()
  equal(await ended, 0, 'how the agent ended')
  equal(asked.size, 0, 'questions without an answer')
} finally {
  agent.kill()
}
console.log(`checks ${checks}`)
process.exit(0)
