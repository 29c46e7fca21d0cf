// Drains a queue of jobs with graphile-worker or pg-boss, as `./bench/run consume` asks.
// Usage: node jobs.mjs VARIANT empty|insert URL JOBS SECONDS
//
// Fills the queue, says "ready", waits for a line on its input, works until nothing is left or the time is over, and
// tells as JSON how many jobs the database has as done, and in how many seconds. Then it waits to be ended, so that
// its CPU time can be read.

import { createInterface } from "node:readline"
import { setTimeout as sleep } from "node:timers/promises"
import { Logger, makeWorkerUtils, run } from "graphile-worker"
import pg from "pg"
import PgBoss from "pg-boss"

const [variant, effect, url, jobsText, secondsText] = process.argv.slice(2)
const jobs = Number(jobsText)
const seconds = Number(secondsText)

const FILL_JOBS = 1000
const LOOK_MS = 5
const QUEUE = "events"
const INSERT = { name: "effect", text: "INSERT INTO effects (c_offset, host_id, user_id) VALUES ($1, $2, $3)" }
const silent = new Logger(() => () => {})

// The same shape as the log's: 200 hosts with ten users each, about 200 bytes.
function payload(number) {
  const transaction = Math.floor(number / 3)
  const key = (transaction * 7919) % 2000
  const document = { id: number, customer: key, status: "open", note: "x".repeat(120) }
  return { c_offset: number, host_id: `host-${key % 200}`, user_id: `user-${key}`, document }
}

async function fill(add) {
  for (let first = 1; first <= jobs; first += FILL_JOBS) {
    const numbers = Array.from({ length: Math.min(FILL_JOBS, jobs - first + 1) }, (_, index) => first + index)
    await add(numbers.map(payload))
  }
}

// How many jobs were handed to the handler: decides when to look at the database, not what is told.
let handled = 0

const effects = {
  empty: async () => {},
  insert: (query, { c_offset, host_id, user_id }) => query({ ...INSERT, values: [c_offset, host_id, user_id] }),
}
const act = effects[effect]

// concurrentJobs is 1 unless told. The local queue takes 500 jobs in one statement; with the delays of 0 all completions
// of one turn of the event loop are one statement. These are the settings that its authors measure with.
const graphile = {
  "graphile-1": {},
  "graphile-8": { concurrentJobs: 8 },
  "graphile-batched": {
    concurrentJobs: 24,
    maxPoolSize: 26,
    localQueue: { size: 500 },
    completeJobBatchDelay: 0,
    failJobBatchDelay: 0,
  },
}

async function drainGraphile(options, database) {
  const utils = await makeWorkerUtils({ connectionString: url, logger: silent })
  await utils.migrate()
  await database.query("TRUNCATE graphile_worker._private_jobs")
  await fill((payloads) => utils.addJobs(payloads.map((payload) => ({ identifier: "work", payload }))))
  await utils.release()
  await database.query("VACUUM ANALYZE graphile_worker._private_jobs")
  const task = async (payload, helpers) => {
    await act((query) => helpers.withPgClient((client) => client.query(query)), payload)
    handled += 1
  }
  let runner
  return {
    begin: async () => {
      const worker = { ...options, connectionString: url, logger: silent }
      runner = await run({ preset: { worker }, taskList: { work: task }, noHandleSignals: true })
    },
    end: () => runner.stop(),
    left: "SELECT count(*)::int AS left FROM graphile_worker._private_jobs",
  }
}

// work() asks for one job every two seconds unless told; every half second is the most often it can be told. Whoever
// wants more than that calls fetch() and complete(), here from eight loops at once.
const boss = {
  "boss-work": { work: {} },
  "boss-work-batched": { work: { batchSize: 100, pollingIntervalSeconds: 0.5 } },
  "boss-fetch-1": { fetch: 1, loops: 8 },
  "boss-fetch-100": { fetch: 100, loops: 8 },
}

async function drainBoss({ work, fetch, loops }, database) {
  const boss = new PgBoss({ connectionString: url, max: 10 })
  boss.on("error", (error) => process.stderr.write(`${error.message}\n`))
  await boss.start()
  await boss.clearStorage()
  await boss.createQueue(QUEUE)
  await fill((payloads) => boss.insert(payloads.map((data) => ({ name: QUEUE, data }))))
  await database.query("VACUUM ANALYZE pgboss.job")
  const handle = async (taken) => {
    for (const { data } of taken) {
      await act((query) => database.query(query), data)
      handled += 1
    }
  }
  let over = false
  const loop = async () => {
    while (!over) {
      const taken = await boss.fetch(QUEUE, { batchSize: fetch })
      if (taken.length === 0) break
      await handle(taken)
      await boss.complete(QUEUE, taken.map(({ id }) => id))
    }
  }
  let looping = []
  return {
    begin: async () => {
      if (work) await boss.work(QUEUE, work, handle)
      else looping = Array.from({ length: loops }, loop)
    },
    end: async () => {
      over = true
      await Promise.all(looping)
      await boss.stop({ wait: true, graceful: true, close: false })
    },
    left: "SELECT count(*)::int AS left FROM pgboss.job WHERE name = 'events' AND state <> 'completed'",
  }
}

const input = createInterface({ input: process.stdin })[Symbol.asyncIterator]()
const database = new pg.Pool({ connectionString: url, max: 8 })
const drain = variant in graphile ? await drainGraphile(graphile[variant], database) : await drainBoss(boss[variant], database)

process.stdout.write("ready\n")
await input.next()
const began = performance.now()
const elapsed = () => (performance.now() - began) / 1000
await drain.begin()
while (handled < jobs && elapsed() < seconds) await sleep(LOOK_MS)
await drain.end()
const took = elapsed()
const { rows } = await database.query(drain.left)
process.stdout.write(`${JSON.stringify({ events: jobs - rows[0].left, seconds: took })}\n`)
await input.next()
process.exit(0)
