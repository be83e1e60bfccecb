// `@modelcontextprotocol/client`, the second generation of the TypeScript SDK, unmodified, against a running server.
//
//     sdk2.mjs legacy|modern http URL
//     sdk2.mjs legacy|modern stdio COMMAND...
//
// The last line of standard output is `checks N`. The first check that fails ends the run.

import { Client, ResourceNotFoundError, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { SkillsClient } from '@modelcontextprotocol/client/ext/skills'
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio'

import { run } from './expect.mjs'
import { Notifications, Session } from './session.mjs'

const [era, transport, ...target] = process.argv.slice(2)

class Session2 extends Session {
  cannot = {}

  /** Without a cursor this SDK collects all pages and does not report their number. */
  async 'list-resources'() {
    return { ...(await super['list-resources']()), pages: Infinity }
  }

  /** This SDK has its own error for missing resources, without the code of the revision. */
  read = async ({ uri }) => {
    try {
      return await this.client.readResource({ uri })
    } catch (error) {
      if (typeof error.code !== 'number') throw error
      const code = era === 'legacy' && error instanceof ResourceNotFoundError ? -32002 : error.code
      return { error: { code, message: error.message } }
    }
  }

  /** Returns the entries after the SDK has verified size, digest and frontmatter of one with a manifest. */
  async 'list-skills'() {
    const skills = new SkillsClient(this.client)
    const listed = await skills.list()
    const { verified } = await skills.read(listed.skills.find(({ resources }) => Array.isArray(resources)))
    if (!verified) throw new Error('the SDK has not verified the skill')
    return listed
  }

  async subscribe(uris, lists) {
    if (era === 'legacy') return await super.subscribe(uris)
    const changed = Object.fromEntries(lists.map((kind) => [`${kind}ListChanged`, true]))
    const subscription = await this.client.listen({ ...changed, resourceSubscriptions: uris })
    return () => subscription.close()
  }
}

const mode = era === 'legacy' ? 'legacy' : { pin: '2026-07-28' }
const client = new Client({ name: 'interop', version: '1' }, { versionNegotiation: { mode } })
const notifications = new Notifications()
client.fallbackNotificationHandler = async (notification) => notifications.add(notification)
await client.connect(
  transport === 'http'
    ? new StreamableHTTPClientTransport(new URL(target[0]))
    : new StdioClientTransport({ command: target[0], args: target.slice(1) }),
)
try {
  console.log(`checks ${await run(new Session2(client, notifications), era)}`)
} finally {
  await client.close()
}
