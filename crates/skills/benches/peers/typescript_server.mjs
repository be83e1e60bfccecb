// Skills of a folder on the TypeScript SDK, from memory, in one session so that nothing is set up per request.
// Says where it serves.
//
//     typescript_server.mjs FOLDER-WITH-NODE_MODULES FOLDER-OF-SKILLS

import { randomUUID } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { createRequire } from 'node:module'
import { join } from 'node:path'

const [packages, folder] = process.argv.slice(2)
const require = createRequire(join(packages, 'node_modules', '-'))
const { Server } = require('@modelcontextprotocol/sdk/server/index.js')
const { StreamableHTTPServerTransport } = require('@modelcontextprotocol/sdk/server/streamableHttp.js')
const { ListResourcesRequestSchema, ReadResourceRequestSchema } = require('@modelcontextprotocol/sdk/types.js')

const skills = new Map(
  readdirSync(folder).map((id) => [`iii://${id}`, readFileSync(join(folder, id, 'SKILL.md'), 'utf8')]),
)

const server = new Server({ name: 'bench', version: '1' }, { capabilities: { resources: {} } })
server.setRequestHandler(ListResourcesRequestSchema, () => ({
  resources: [...skills.keys()].slice(0, 100).map((uri) => ({ uri, name: uri, mimeType: 'text/markdown' })),
}))
server.setRequestHandler(ReadResourceRequestSchema, ({ params: { uri } }) => ({
  contents: [{ uri, mimeType: 'text/markdown', text: skills.get(uri) }],
}))

const transport = new StreamableHTTPServerTransport({ sessionIdGenerator: randomUUID, enableJsonResponse: true })
await server.connect(transport)
const http = createServer((request, response) => transport.handleRequest(request, response))
http.listen(0, '127.0.0.1', () => console.log(`127.0.0.1:${http.address().port}`))
