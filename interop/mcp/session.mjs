// The operations of `expectations.json` on a client of either TypeScript SDK: their calls have the same names.

const DEADLINE_MS = 20_000

/** Received notifications and a pending waiter. */
export class Notifications {
  #seen = []
  #look = () => {}

  add(notification) {
    this.#seen.push(notification)
    this.#look()
  }

  /** Resolves when a matching notification arrives after the call. */
  next({ method, uri }) {
    const since = this.#seen.length
    return new Promise((resolve, reject) => {
      const late = () => {
        const came = JSON.stringify(this.#seen.slice(since))
        reject(new Error(`no ${method} ${uri ?? ''} within ${DEADLINE_MS} ms; these came: ${came}`))
      }
      const timer = setTimeout(late, DEADLINE_MS)
      this.#look = () => {
        const fits = (seen) => seen.method === method && seen.params?.uri === uri
        if (!this.#seen.slice(since).some(fits)) return
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

/** Returns all pages of a list. */
async function pages(request, key) {
  const items = []
  let number = 0
  let cursor
  do {
    const page = await request(cursor ? { cursor } : undefined)
    items.push(...page[key])
    cursor = page.nextCursor
    number += 1
  } while (cursor)
  return { number, items }
}

async function answer(call) {
  try {
    return await call
  } catch (error) {
    if (typeof error.code !== 'number') throw error
    return { error: { code: error.code, message: error.message } }
  }
}

export class Session {
  cannot = { 'list-skills': 'the SDK has no calls for the skills extension' }

  constructor(client, notifications) {
    this.client = client
    this.notifications = notifications
  }

  async 'list-resources'() {
    const { number, items } = await pages((params) => this.client.listResources(params), 'resources')
    return { pages: number, resources: items, uris: items.map(({ uri }) => uri) }
  }

  async 'list-templates'() {
    const { items } = await pages((params) => this.client.listResourceTemplates(params), 'resourceTemplates')
    return { resourceTemplates: items }
  }

  async 'list-prompts'() {
    return { prompts: (await pages((params) => this.client.listPrompts(params), 'prompts')).items }
  }

  async 'list-tools'() {
    const { items } = await pages((params) => this.client.listTools(params), 'tools')
    return { tools: items, names: items.map(({ name }) => name) }
  }

  read = ({ uri }) => answer(this.client.readResource({ uri }))
  'get-prompt' = (prompt) => answer(this.client.getPrompt(prompt))
  'call-tool' = (call) => answer(this.client.callTool(call))

  complete = ({ template, argument, value }) =>
    answer(this.client.complete({ ref: { type: 'ref/resource', uri: template }, argument: { name: argument, value } }))

  async watch({ change, until, uris = [], lists = [] }) {
    const stop = await this.subscribe(uris, lists)
    const seen = this.notifications.next(until)
    // Handled below; until then a failed change must not cause an unhandled rejection.
    seen.catch(() => {})
    const done = await this['call-tool']({ name: 'interop__change', arguments: change })
    if (done.isError || done.error) throw new Error(`interop__change: ${JSON.stringify(done)}`)
    await seen
    await stop()
    return { seen: true }
  }

  async subscribe(uris) {
    for (const uri of uris) await this.client.subscribeResource({ uri })
    return async () => {
      for (const uri of uris) await this.client.unsubscribeResource({ uri })
    }
  }
}
