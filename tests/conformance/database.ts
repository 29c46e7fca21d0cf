/**
 * A fresh PostgreSQL database for one server, made under the cluster that `./test` started.
 */

import { randomBytes } from "node:crypto"
import pg from "pg"

export interface Database {
  readonly url: string
  drop(): Promise<void>
}

export async function createDatabase(): Promise<Database> {
  const cluster = process.env.TIDEWIRE_TEST_DATABASE_URL
  if (!cluster) {
    throw new Error(
      "TIDEWIRE_TEST_STORE=postgres needs TIDEWIRE_TEST_DATABASE_URL; `./test` starts a cluster and sets it",
    )
  }
  const name = `conformance_${randomBytes(6).toString("hex")}`
  await run(cluster, `CREATE DATABASE ${name}`)
  const url = new URL(cluster)
  url.pathname = `/${name}`
  return {
    url: url.href,
    // FORCE: a server that was killed may still hold connections.
    drop: () => run(cluster, `DROP DATABASE IF EXISTS ${name} WITH (FORCE)`),
  }
}

async function run(url: string, statement: string): Promise<void> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    await client.query(statement)
  } finally {
    await client.end()
  }
}
