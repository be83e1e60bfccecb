// Publish a skill, a section and a slash command, then read them back.
//
//     npm install iii-sdk@0.22.1
//     node quickstart.mjs

import { registerWorker } from 'iii-sdk'

const worker = registerWorker(process.env.III_URL ?? 'ws://127.0.0.1:49134')
const call = (function_id, payload) => worker.trigger({ function_id, payload })

worker.registerFunction('weather::units', async () => ({
  content: '# Units\n\nTemperatures are in °C, wind is in m/s.',
}))
worker.registerFunction('weather::forecast', async ({ city }) => ({
  content: `Do I need an umbrella in ${city} today?`,
}))

await call('skills::register', {
  id: 'weather',
  skill: '# Weather\n\nForecasts for any city.\n\nRead [units](iii://weather/weather::units) first.\n',
})
await call('prompts::register', {
  name: 'forecast',
  description: "Ask about today's weather.",
  arguments: [{ name: 'city', description: 'Where', required: true }],
  function_id: 'weather::forecast',
})

const section = await call('skills::resources-read', { uri: 'iii://weather/weather::units' })
const prompt = await call('prompts::mcp-get', { name: 'forecast', arguments: { city: 'Lisbon' } })
console.log(`iii://weather/weather::units\n\n${section.contents[0].text}\n`)
console.log(`/forecast city=Lisbon\n\n${prompt.messages[0].content.text}`)

// A real worker stays connected: its sections and prompts are served while it runs.
await worker.shutdown()
