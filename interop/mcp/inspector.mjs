// `@modelcontextprotocol/inspector --cli`, unmodified, against a running server: one process for every request.
//
//     inspector.mjs LAUNCHER legacy|modern http URL
//     inspector.mjs LAUNCHER legacy|modern stdio COMMAND...
//
// The last line of standard output is `checks N`. The first check that fails ends the run.

import { execFile } from 'node:child_process'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

import { run } from './expect.mjs'

const [launcher, era, transport, ...target] = process.argv.slice(2)

const server = transport === 'http' ? ['--transport', 'http', '--server-url', target[0]] : target
// Without these it would read servers and settings from the home directory.
const config = join(tmpdir(), 'interop-no-such-client.json')

function inspect(method, options = []) {
  const fixed = ['--format', 'json', '-q', '--protocol-era', era, '--client-config', config]
  const command = [launcher, '--cli', ...server, ...fixed, '--method', method, ...options]
  return new Promise((resolve, reject) => {
    execFile(process.execPath, command, { maxBuffer: 1 << 26 }, (failure, stdout, stderr) => {
      try {
        const said = JSON.parse(stdout || stderr)
        resolve(said.result ?? said)
      } catch {
        reject(new Error(`${method} ${options.join(' ')}: ${failure?.message ?? ''}\n${stdout}\n${stderr}`))
      }
    })
  })
}

/** Builds an option with pairs as values; empty without pairs. */
function pairs(option, values) {
  const given = Object.entries(values).map(([key, value]) => `${key}=${value}`)
  return given.length ? [option, ...given] : []
}

/** The command line cannot hold a connection open. */
const oneShot = 'the command line makes one request a run'

const client = {
  // It prints its own text instead of the error code.
  codes: false,
  cannot: { watch: oneShot, complete: 'the command line has no completion' },
  // It receives no notifications, but later requests see the change.
  instead: { watch: ({ change }) => client['call-tool']({ name: 'interop__change', arguments: change }) },
  async 'list-resources'() {
    const { resources } = await inspect('resources/list')
    // It follows the cursors itself and does not report the number of pages.
    return { resources, uris: resources.map(({ uri }) => uri), pages: Infinity }
  },
  'list-templates': () => inspect('resources/templates/list'),
  'list-prompts': () => inspect('prompts/list'),
  async 'list-tools'() {
    const { tools } = await inspect('tools/list')
    return { tools, names: tools.map(({ name }) => name) }
  },
  /** Returns the entries after the inspector has verified size, digest and frontmatter. */
  async 'list-skills'() {
    await inspect('skills/get', ['--uri', 'skill://interop-page-000/SKILL.md', '--verify'])
    return await inspect('skills/list')
  },
  read: ({ uri }) => inspect('resources/read', ['--uri', uri]),
  'get-prompt': ({ name, arguments: given }) =>
    inspect('prompts/get', ['--prompt-name', name, ...pairs('--prompt-args', given)]),
  'call-tool': ({ name, arguments: given }) =>
    inspect('tools/call', ['--tool-name', name, '--tool-args-json', JSON.stringify(given)]),
}

console.log(`checks ${await run(client, era)}`)
