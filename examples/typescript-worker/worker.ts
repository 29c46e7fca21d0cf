/**
 * A worker of a consumer group, with fetch and no packages: counts the events of each host and user in a table.
 *
 * What it counts goes into the ack, so it is kept with the group's progress or not at all: once, whatever dies when.
 */

import { fileURLToPath } from "node:url"

const LEASE_MS = 30_000
const WAIT_MS = 20_000
const BATCH_SIZE = 100
/** Batches of one transaction each that are taken after one whose SQL could not be run. */
const CAREFUL = 100
/** Keys that one nack names; the others come again, and can be named then. */
const FAILED_MAX = 1_000
const COUNT = `INSERT INTO totals (host_id, user_id, events) VALUES ($1, $2, $3)
  ON CONFLICT (host_id, user_id) DO UPDATE SET events = totals.events + excluded.events`

export interface Event {
  offset: string
  stream_id: string
  /** Of a watched table: the row before and after. Of any other stream: `payload`. */
  before_data?: unknown
  after_data?: unknown
  payload?: unknown
}

export interface Key {
  host_id: string | null
  user_id: string | null
  attempt: number
  events: Event[]
}

interface Batch {
  token: string
  groups: Key[]
}

/** SQL to run in the transaction that acknowledges the batch. */
export interface Statement {
  sql: string
  params: unknown[]
}

/** Thrown by a handler for events that no repetition will help. */
export class Dead extends Error {}

/** Handles the events of one host and user, in order. */
export type Handler = (key: Key) => Promise<Statement[]>

export interface Options {
  url: string
  token?: string | undefined
  group: string
  member: string
  /** No batch is begun after it is aborted; the one in hand is finished. */
  stop: AbortSignal
}

class Refused extends Error {
  readonly code: string | undefined
  readonly temporary: boolean

  constructor(code: string | undefined, temporary: boolean, text: string) {
    super(text)
    this.code = code
    this.temporary = temporary
  }
}

/** Works until it is told to stop. */
export async function work(options: Options, handle: Handler): Promise<void> {
  let failures = 0
  let careful = 0
  while (!options.stop.aborted) {
    try {
      const alone = careful > 0
      const size = alone ? 1 : BATCH_SIZE
      const claim = { member: options.member, batch_size: size, lease_ms: LEASE_MS, wait_ms: WAIT_MS }
      const batch = (await post(options, "claim", claim, options.stop)) as Batch | undefined
      if (batch) careful = (await workOff(options, batch, handle, alone)) ? Math.max(0, careful - 1) : CAREFUL
      failures = 0
    } catch (error) {
      if (options.stop.aborted) return
      // That batch is another's; the next may be ours.
      if (error instanceof Refused && error.code === "lease_lost") continue
      if (error instanceof Refused && !error.temporary && error.code !== "group_stopped") throw error
      console.error(`${String(error)}; trying again`)
      failures += 1
      await pause(Math.random() * Math.min(10_000, 200 * 2 ** failures), options.stop)
    }
  }
}

/**
 * Handles a batch key by key, while its lease is extended, and says how it went.
 * Returns whether the SQL, if it came to that, could be run.
 */
async function workOff(options: Options, batch: Batch, handle: Handler, alone: boolean): Promise<boolean> {
  const { token } = batch
  // If the lease is lost, the ack will say so.
  const extend = () => void post(options, "extend", { token, lease_ms: LEASE_MS }).catch(() => {})
  const extending = setInterval(extend, LEASE_MS / 3)
  try {
    const sql: Statement[] = []
    for (const key of batch.groups) {
      try {
        sql.push(...(await handle(key)))
      } catch (error) {
        await giveBack(options, token, [key], error)
        return true
      }
    }
    try {
      await post(options, "ack", { token, sql })
      return true
    } catch (error) {
      if (!(error instanceof Refused && error.code?.startsWith("sql_"))) throw error
      console.error(String(error))
      // Nothing was kept. Whose SQL it was is not said: unless this is one transaction alone, nobody is blamed.
      await giveBack(options, token, alone && !error.temporary ? batch.groups : [], error)
      return false
    }
  } finally {
    clearInterval(extending)
  }
}

/** Has the batch handed out again. Events of these keys are set aside if they have failed too often. */
async function giveBack(options: Options, token: string, keys: Key[], error: unknown): Promise<void> {
  const why = { error: String(error).slice(0, 1_000), verdict: error instanceof Dead ? "dead" : "retry" }
  const failed = keys.slice(0, FAILED_MAX).map(({ host_id, user_id }) => ({ host_id, user_id, ...why }))
  await post(options, "nack", { token, failed })
}

/** Says something to the group. Undefined: there was no work in time. */
async function post(options: Options, act: string, body: unknown, stop?: AbortSignal): Promise<unknown> {
  const headers: Record<string, string> = { "content-type": "application/json" }
  if (options.token) headers.authorization = `Bearer ${options.token}`
  const url = `${options.url}/v1/groups/${encodeURIComponent(options.group)}/${act}`
  const response = await fetch(url, { method: "POST", headers, body: JSON.stringify(body), signal: stop ?? null })
  if (response.status === 204) return undefined
  if (response.ok) return response.json()
  const problem = (await response.json().catch(() => ({}))) as { code?: string; detail?: string; temporary?: boolean }
  const temporary = problem.temporary ?? response.status >= 500
  throw new Refused(problem.code, temporary, problem.detail ?? `status ${response.status}`)
}

/** Waits, but not for what is to stop. */
function pause(ms: number, stop: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms)
    stop.addEventListener("abort", () => (clearTimeout(timer), resolve()), { once: true })
  })
}

export const count: Handler = async ({ host_id, user_id, events }) => {
  console.log(`${events.length} events of ${host_id}/${user_id} up to ${events.at(-1)?.offset}`)
  return [{ sql: COUNT, params: [host_id ?? "", user_id ?? "", events.length] }]
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const stop = new AbortController()
  for (const signal of ["SIGTERM", "SIGINT"] as const) process.once(signal, () => stop.abort())
  const { TIDEWIRE_URL, TIDEWIRE_TOKEN, TIDEWIRE_GROUP, TIDEWIRE_MEMBER } = process.env
  const options: Options = {
    url: TIDEWIRE_URL ?? "http://127.0.0.1:4437",
    token: TIDEWIRE_TOKEN,
    group: TIDEWIRE_GROUP ?? "totals",
    member: TIDEWIRE_MEMBER ?? `typescript-${process.pid}`,
    stop: stop.signal,
  }
  await work(options, count)
}
