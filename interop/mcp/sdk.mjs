// `@modelcontextprotocol/sdk`, unmodified, against a running server.
//
//     sdk.mjs legacy http URL
//     sdk.mjs legacy stdio COMMAND...
//
// The last line of standard output is `checks N`. The first check that fails ends the run.

import { Client } from '@modelcontextprotocol/sdk/client/index.js'
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js'
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js'

import { run } from './expect.mjs'
import { Notifications, Session } from './session.mjs'

const [era, transport, ...target] = process.argv.slice(2)

const client = new Client({ name: 'interop', version: '1' })
const notifications = new Notifications()
client.fallbackNotificationHandler = async (notification) => notifications.add(notification)
await client.connect(
  transport === 'http'
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1) }),
)
try {
  console.log(`checks ${await run(new Session(client, notifications), era)}`)
} finally {
  await client.close()
}
