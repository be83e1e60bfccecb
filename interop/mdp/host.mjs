// A host on `@modelcontextprotocol/sdk`, unmodified, that drives a live client through the server.
//
//     host.mjs CLIENT full|mdp http URL
//     host.mjs CLIENT full|mdp stdio COMMAND...
//
// The SDK holds whatever a tool gives against the schema that the tool declares, and fails if it does not fit. The
// last line of standard output is `checks N`. The first check that fails ends the run.

import assert from 'node:assert/strict'

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

const FOUR = ['listClients', 'listPaths', 'callPath', 'callPaths']
const REVIEW = '# Review\n\nReads a change and says what is wrong.\n\nDetails in files.\n'

const [id, profile, transport, ...target] = process.argv.slice(2)
let checks = 0

function check(got, wanted, what) {
  assert.deepEqual(got, wanted, what)
  checks += 1
}

const host = new Client({ name: 'interop', version: '1' })
await host.connect(
  transport === 'http'
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1) }),
)
const call = (name, args) => host.callTool({ name, arguments: args })

async function tools() {
  // Also what makes the SDK look at the schemas.
  const names = (await host.listTools()).tools.map((tool) => tool.name)
  if (profile === 'mdp') check(names, FOUR, 'the tools of the profile')
  else for (const name of FOUR) check(names.includes(name), true, name)

  const { clients } = (await call('listClients', {})).structuredContent
  check(clients.some((client) => client.id === 'registry'), false, 'nothing is stored')
  const client = clients.find((client) => client.id === id)
  check(client.status, 'online', 'the client is there')
  const shallow = (await call('listPaths', { clientId: id })).structuredContent.paths.map(({ path }) => path)
  check(shallow.includes('/workspace/review/skill.md'), true, 'a shallow path')
  check(shallow.includes('/workspace/review/files/skill.md'), false, 'no deeper one')
  const found = []
  for (let cursor; ; ) {
    const page = (await call('listPaths', { clientId: id, depth: 9, limit: 2, ...(cursor && { cursor }) })).structuredContent
    found.push(...page.paths.map(({ path }) => path))
    cursor = page.nextCursor
    if (!cursor) break
  }
  check(found, client.paths.map(({ path }) => path), 'all paths, two at a time')

  const get = { method: 'GET', path: '/workspace/review/skill.md' }
  check((await call('callPath', { clientId: id, ...get })).structuredContent, { ok: true, data: REVIEW }, 'callPath')
  const posted = await call('callPath', {
    clientId: id, method: 'POST', path: '/goods/sku-7', query: { q: 'x' }, body: { price: null }, headers: { 'X-Review-Scope': 'all' },
  })
  check(posted.structuredContent.ok, true, 'an endpoint')
  check(JSON.stringify(posted.structuredContent.data).includes('sku-7'), true, 'its parameter')
  const { results } = (await call('callPaths', { clientIds: [id, 'nobody'], ...get })).structuredContent
  check(results[0], { clientId: id, ok: true, data: REVIEW }, 'part of callPaths')
  check(results[1].error.code, 'not_found', 'the rest of it')
  const all = (await call('callPaths', get)).structuredContent.results
  check(all.map(({ clientId }) => clientId), [id], 'all that have the path')
  const missing = await call('callPath', { clientId: id, method: 'GET', path: '/nothing' })
  check(missing.isError, true, 'nothing there')
  check(missing.content[0].text, `Path "/nothing" with method "GET" was not found on client "${id}"`, 'the words')
}

async function content() {
  const text = async (uri) => (await host.readResource({ uri })).contents[0].text
  check(await text(`iii://${id}/workspace/review/skill.md`), REVIEW, 'a live skill')
  check(await text(`iii://${id}`), '# Root\n', 'the root skill')
  const document = await text(`skill://${id}/workspace/review/SKILL.md`)
  check(document.startsWith('---\nname: "review"\n') && document.endsWith(REVIEW), true, 'as a skill of the extension')
  const uris = []
  for (let cursor; ; ) {
    const page = await host.listResources(cursor && { cursor })
    uris.push(...page.resources.map(({ uri }) => uri))
    cursor = page.nextCursor
    if (!cursor) break
  }
  check(uris.includes(`iii://${id}/workspace/review/files/skill.md`), true, 'listed')
  const { messages } = await host.getPrompt({ name: `${id}-ask` })
  check(messages[0].content, { type: 'text', text: 'Ask about the review.' }, 'a prompt')
}

try {
  await tools()
  if (profile === 'full') await content()
  console.log(`checks ${checks}`)
} finally {
  await host.close()
}
