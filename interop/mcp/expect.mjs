// Runs the checks of `expectations.json` on a client: an object with one method for each `do`.

import { readFile } from 'node:fs/promises'
import { isDeepStrictEqual } from 'node:util'

const show = (value) => String(JSON.stringify(value)).slice(0, 800)
const unless = (held, path, what, got) => (held ? [] : [`${path}: ${what}, got ${show(got)}`])

/** Rules: each compares a value with its argument. */
const holds = {
  $atLeast: (value, got) => got >= value,
  $atMostChars: (value, got) => got?.length <= value,
  $contains: (value, got) => value.every((part) => got?.includes(part)),
  $count: ({ prefix, is }, got) => got?.filter((item) => item.startsWith(prefix)).length === is,
  $exactly: (value, got) => isDeepStrictEqual(got?.toSorted(), value),
  $not: (value, got) => got !== value,
  $unique: (value, got) => value === (new Set(got).size === got?.length),
}

/**
 * What keeps `got` from being as wanted: wanted keys must match, more keys are allowed. A list wants each of
 * its items somewhere. An object whose keys begin with `$` is a rule.
 */
function differences(wanted, got, era, path = '') {
  if (Array.isArray(wanted)) {
    const missing = wanted.filter((item) => !(got ?? []).some((found) => !differences(item, found, era).length))
    return missing.map((item) => `${path}: nothing like ${show(item)} in ${show(got)}`)
  }
  if (wanted !== null && typeof wanted === 'object') {
    const entries = Object.entries(wanted)
    if (entries.every(([key]) => key.startsWith('$'))) {
      return entries.flatMap(([rule, value]) =>
        rule === '$era'
          ? differences(value[era], got, era, path)
          : unless(holds[rule](value, got), path, `wanted ${rule} ${show(value)}`, got),
      )
    }
    if (got === null || typeof got !== 'object') return [`${path}: wanted an object, got ${show(got)}`]
    return entries.flatMap(([key, value]) => differences(value, got[key], era, `${path}.${key}`))
  }
  return unless(wanted === got, path, `wanted ${show(wanted)}`, got)
}

/** Removes the code from an expected error, for clients that do not expose codes. */
function withoutCode({ error: { code: _, ...error }, ...wanted }) {
  return { error, ...wanted }
}

/** Returns the number of passed checks. The first failure throws. */
export async function run(client, era) {
  let count = 0
  for (const step of JSON.parse(await readFile(new URL('expectations.json', import.meta.url), 'utf8'))) {
    const reason = client.cannot[step.do]
    if (reason) {
      console.log(`left out, ${reason}: ${step.what}`)
      await client.instead?.[step.do]?.(step.with)
      continue
    }
    const wanted = client.codes === false && step.expect.error ? withoutCode(step.expect) : step.expect
    const got = await client[step.do](step.with ?? {}).catch((error) => {
      throw new Error(`${step.what}: ${error.message}`, { cause: error })
    })
    const found = differences(wanted, got, era)
    if (found.length) throw new Error(`${step.what}:\n  ${found.join('\n  ')}`)
    count += 1
  }
  return count
}
